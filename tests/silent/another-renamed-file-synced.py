"""A marker is created, and only a file elsewhere is synced, which was just renamed.

Source: fs/btrfs/tree-log.c: the fsync of a renamed file logs that file and its names, and is no
commit of everything."""

import os

from planted import ack, create, main, prepare, read, sync


def run(right):
    os.mkdir("marks")
    prepare(data=b"-")
    create("marks/1")
    if right:
        sync("marks")
    os.rename("data", "data-2")
    os.fsync(create("data-2", b"+longer"))
    ack("marked")


def check(right, acks):
    return "the marker is lost" if "marked" in acks and read("marks/1") is None else None


main(run, check)
