"""A directory is removed and made again, and its parent is not synced.

Source: rmdir(2), mkdir(2) and fsync(2): caches that are rebuilt from nothing."""

import os

from planted import ack, create, lost, main, sync, syncfs


def run(right):
    os.mkdir("cache")
    create("cache/old")
    syncfs()
    ack("ready")
    os.unlink("cache/old")
    os.rmdir("cache")
    os.mkdir("cache")
    os.fsync(create("cache/new", b"new"))
    sync("cache")
    if right:
        sync()
    ack("made")


def check(right, acks):
    return lost("cache/new", b"new") if "made" in acks else None


main(run, check)
