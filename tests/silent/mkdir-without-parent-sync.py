"""A directory is made, what is in it is synced, and its own name is not.

Source: fsync(2), as above; etcd issue 22340 (2026: the directory of snapshots is not synced)."""

import os

from planted import ack, create, lost, main, sync


def run(right):
    os.mkdir("snap")
    os.fsync(create("snap/1", b"whole"))
    sync("snap")
    if right:
        sync(".")
    ack("taken")


def check(right, acks):
    return lost("snap/1", b"whole") if acks else None


main(run, check)
