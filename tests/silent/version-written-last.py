"""A segment is of its full size before its version is written, and version 0 is refused.

Source: LogCabin issues 191 and 221 (PACE, OSDI 2016): creat, truncate to 10240, write 10240, write
the version."""

import os

from planted import ack, create, main, read, sync

REFUSED = "it does not start: a segment of version 0"


def run(right):
    file = create("open-4")
    os.ftruncate(file, 10240)
    os.fsync(file)
    sync()
    os.pwrite(file, b"\1", 0)
    os.fsync(file)
    ack("started")


def check(right, acks):
    found = read("open-4")
    if acks and (found is None or found[0] != 1):
        return "the segment is lost"
    return REFUSED if found and found[0] == 0 and not right else None


main(run, check)
