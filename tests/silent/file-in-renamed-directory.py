"""A directory is renamed, and a file in it is written and synced, which is taken to keep its path.

Source: fsync(2); on btrfs the fsync of a file logs the names of the file, and not those that its
directories got (fs/btrfs/tree-log.c, btrfs_log_new_ancestors: only new ones)."""

import os

from planted import ack, create, lost, main, sync, syncfs


def run(right):
    os.mkdir("data.tmp")
    create("data.tmp/log", b"begin")
    syncfs()
    os.rename("data.tmp", "data")
    if right:
        sync()
    os.fsync(create("data/log", b"begin, end"))
    ack("written")


def check(right, acks):
    return lost("data/log", b"begin, end") if acks else None


main(run, check)
