"""A record is punched out of a page, and a mark that it is gone is durable before the zeros are.

Source: fallocate(2), FALLOC_FL_PUNCH_HOLE: within a page zeros are written, which is no change of
names; fs/xfs/xfs_bmap_util.c, xfs_free_file_space."""

import os

from planted import call, create, main, prepare, read, sync

PUNCH = 3


def run(right):
    prepare(box=b"S" * 3000)
    file = create("box")
    call("fallocate", file, PUNCH, 1000, 1000)
    if right:
        os.fsync(file)
    os.mkdir("punched")
    sync()


def check(right, acks):
    if os.path.exists("punched") and b"S" in read("box")[1000:2000]:
        return "what was punched out is there again"


main(run, check)
