"""A log is zeroed in place and used again from its start, and the zeros are not durable before the new
record is: after that the old records follow it.

Source: fallocate(2), FALLOC_FL_ZERO_RANGE; fs/ext4/extents.c, ext4_do_fallocate: the file keeps its
blocks, and the disk takes them for the old ones until the journal is committed."""

import os

from planted import PAGE, call, create, main, prepare, read

KEEP_SIZE, ZERO_RANGE = 1, 16


def run(right):
    prepare(log=b"O" * 4 * PAGE)
    file = create("log")
    call("fallocate", file, KEEP_SIZE | ZERO_RANGE, 0, 4 * PAGE)
    if right:
        os.fsync(file)
    os.pwrite(file, b"N" * PAGE, 0)


def check(right, acks):
    log = read("log") or b""
    if log.startswith(b"N") and b"O" in log:
        return "old records follow the new one"


main(run, check)
