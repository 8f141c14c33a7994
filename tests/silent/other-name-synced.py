"""A file is written under one name, and a copy of it is synced instead of its other name.

Source: fsync(2) is about an inode, whichever of its names was opened."""

import os

from planted import ack, create, main, prepare, read, sync


def run(right):
    prepare(file=b"old", copy=b"old")
    os.link("file", "link")
    sync()
    os.pwrite(create("file"), b"new", 0)
    sync("link" if right else "copy")
    ack("written")


def check(right, acks):
    return "it is old" if "written" in acks and read("file") != b"new" else None


main(run, check)
