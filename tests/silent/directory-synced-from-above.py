"""A directory and a file in it are made, and only the directory above is synced.

Source: fsync(2): the directory that contains the entry is the one to sync; a recursive sync that
stops one level too early."""

import os

from planted import ack, create, main, read, sync


def run(right):
    os.mkdir("queue")
    create("queue/1")
    if right:
        sync("queue")
    sync()
    ack("queued")


def check(right, acks):
    return "the entry is lost" if acks and read("queue/1") is None else None


main(run, check)
