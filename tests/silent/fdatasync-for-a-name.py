"""A log is renamed when it is complete, and fdatasync is taken to keep its name.

Source: etcd issue 6368 (wal.tmp, fdatasync, rename, fdatasync); fsync(2): fdatasync "does not flush
modified metadata unless that metadata is needed" to read the data."""

import os

from planted import ack, create, lost, main, sync


def run(right):
    file = create("wal.tmp", b"A" * 100)
    os.fdatasync(file)
    sync()
    os.rename("wal.tmp", "wal")
    os.fdatasync(file)
    if right:
        sync()
    ack("made")


def check(right, acks):
    return lost("wal", b"A" * 100) if acks else None


main(run, check)
