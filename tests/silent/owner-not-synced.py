"""A file is given to another user, and that is not synced.

Source: chown(2) changes an inode, which fsync(2) keeps; spools that hand mail over by its owner."""

import os

from planted import ack, main, prepare, sync


def run(right):
    prepare(mail=b"text")
    os.chown("mail", 8, 8)
    if right:
        sync("mail")
    ack("given")


def check(right, acks):
    return "it belongs to another" if "given" in acks and os.stat("mail").st_uid != 8 else None


main(run, check)
