"""A file is copied with sendfile, and only its name is synced.

Source: sendfile(2), as servers that receive uploads and copy them use it."""

import os

from planted import ack, create, lost, main, prepare, sync


def run(right):
    prepare(upload=b"upload" * 1000)
    copy = create("stored")
    os.sendfile(copy, create("upload"), 0, 6000)
    if right:
        os.fsync(copy)
    sync()
    ack("stored")


def check(right, acks):
    return lost("stored", b"upload" * 1000) if "stored" in acks else None


main(run, check)
