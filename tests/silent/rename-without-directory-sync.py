"""The name of a file that was renamed is not synced.

Source: etcd issue 6368 (PACE, OSDI 2016); rename(2) and fsync(2): the entry in the directory needs
"an explicit fsync() on a file descriptor for the directory"."""

import os

from planted import ack, create, lost, main, sync

WHOLE = b"version 1\n"


def run(right):
    os.fsync(create("config.tmp", WHOLE))
    os.rename("config.tmp", "config")
    if right:
        sync()
    ack("saved")


def check(right, acks):
    return lost("config", WHOLE) if acks else None


main(run, check)
