"""A marker is created, and only another file is synced: one journal is relied on.

Source: fsync(2) is about one file; ext4 and xfs commit all of their journal with it, btrfs does not
(fs/btrfs/tree-log.c)."""

import os

from planted import ack, create, main, prepare, read, sync


def run(right):
    prepare(data=b"-")
    create("marker")
    if right:
        sync()
    os.fsync(create("data", b"+longer"))
    ack("marked")


def check(right, acks):
    return "the marker is lost" if "marked" in acks and read("marker") is None else None


main(run, check)
