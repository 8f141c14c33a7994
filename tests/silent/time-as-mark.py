"""The time of a file says up to when something was done, and it is not synced.

Source: utimensat(2) changes an inode, which fsync(2) keeps; make(1), and backups that compare
times."""

import os

from planted import ack, create, main, prepare, sync


def run(right):
    prepare(stamp=b"")
    os.utime("stamp", (1000000000, 1000000000))
    if right:
        sync("stamp")
    ack("stamped")


def check(right, acks):
    if "stamped" in acks and os.stat("stamp").st_mtime != 1000000000:
        return "the time is another one"


main(run, check)
