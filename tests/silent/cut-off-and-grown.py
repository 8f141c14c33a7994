"""A file is cut off within a page and grown again, and what was cut off is taken for zeros.

Source: fs/ext4/inode.c, __ext4_block_zero_page_range: only with data=ordered the zeros are on the disk
before the size is; ftruncate(2): what a file grows by is read as zeros."""

import os

from planted import create, main, prepare, read


def run(right):
    prepare(box=b"S" * 3000)
    file = create("box")
    os.ftruncate(file, 1000)
    os.ftruncate(file, 3000)
    if right:
        os.fsync(file)
    os.mkdir("grown")


def check(right, acks):
    if os.path.exists("grown") and read("box")[1000:].strip(b"\0"):
        return "what was cut off is there again"


main(run, check)
