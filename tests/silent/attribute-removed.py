"""An extended attribute is removed, and that is not synced.

Source: removexattr(2) changes an inode, which fsync(2) keeps; labels that forbid or hide a file."""

import os

from planted import ack, main, prepare, sync


def run(right):
    with open("file", "wb"):
        os.setxattr("file", "user.hold", b"until 2030")
    prepare(other=b"-")
    os.removexattr("file", "user.hold")
    if right:
        sync("file")
    ack("released")


def check(right, acks):
    return "it is held again" if "released" in acks and os.listxattr("file") else None


main(run, check)
