"""The file is synced before its last write.

Source: fsync(2): it covers what was written before; a trailer that is written in `close`."""

import os

from planted import ack, create, lost, main, sync


def run(right):
    file = create("table", b"rows")
    if not right:
        os.fsync(file)
    os.write(file, b"footer")
    if right:
        os.fsync(file)
    sync()
    ack("written")


def check(right, acks):
    return lost("table", b"rowsfooter") if acks else None


main(run, check)
