"""A key becomes private after it was written, and that is not synced.

Source: chmod(2) changes an inode, which fsync(2) makes durable and nothing else."""

import os

from planted import ack, create, main, sync


def run(right):
    file = create("key", b"secret")
    os.fsync(file)
    sync()
    os.fchmod(file, 0o600)
    if right:
        os.fsync(file)
    ack("private")


def check(right, acks):
    return "everybody can read it" if acks and os.stat("key").st_mode & 0o077 else None


main(run, check)
