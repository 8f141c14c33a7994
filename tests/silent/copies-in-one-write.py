"""A record is kept twice in one page, so that one copy can be torn, and both are written at once.

Source: a disk promises whole sectors, of 512 bytes, and writes those of a page in any order. Each copy
is two sectors, and says by its bytes whether it is whole, as a checksum would."""

import os

from planted import PAGE, create, main, prepare, read

COPY = 1024


def run(right):
    prepare(copies=b"1" * PAGE)
    file = create("copies")
    if right:
        for copy in range(2):
            os.pwrite(file, b"2" * COPY, copy * COPY)
            os.fsync(file)
    else:
        os.pwrite(file, b"2" * 2 * COPY, 0)


def check(right, acks):
    copies = read("copies") or b""
    is_whole = [len(set(copies[at:at + COPY])) == 1 for at in (0, COPY)]
    if "ready" in acks and not any(is_whole):
        return "both copies are torn"


main(run, check)
