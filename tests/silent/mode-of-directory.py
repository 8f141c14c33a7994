"""A directory becomes private, and the directory above is synced instead of it.

Source: chmod(2) and fsync(2): the mode of a directory is in its own inode."""

import os

from planted import ack, main, prepare, sync


def run(right):
    os.mkdir("private", 0o755)
    prepare(file=b"-")
    os.chmod("private", 0o700)
    sync("private" if right else ".")
    ack("private")


def check(right, acks):
    if "private" in acks and os.stat("private").st_mode & 0o077:
        return "everybody can enter it"


main(run, check)
