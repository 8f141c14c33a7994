"""A log was replaced by another one, and the descriptor of the old one is synced.

Source: logrotate(8), create: a writer that does not open its log again; fsync(2) is about the file
that is open, whatever its name leads to by now."""

import os

from planted import ack, create, lost, main, prepare, sync


def run(right):
    prepare(log=b"old")
    old = create("log")
    os.unlink("log")
    new = create("log", b"new")
    os.fsync(new if right else old)
    sync()
    ack("written")


def check(right, acks):
    return lost("log", b"new") if "written" in acks else None


main(run, check)
