"""A log is copied and then emptied, and the copy is not synced.

Source: logrotate(8), copytruncate: "Truncate the original log file to zero size in place after
creating a copy"."""

import os

from planted import ack, create, main, prepare, read, sync

LINES = b"line\n" * 100


def run(right):
    prepare(log=LINES)
    copy = create("log.1", LINES)
    if right:
        os.fsync(copy)
        sync()
    log = create("log")
    os.ftruncate(log, 0)
    os.fsync(log)
    ack("rotated")


def check(right, acks):
    if "ready" in acks and LINES not in (read("log"), read("log.1")):
        return "the lines are in neither file"


main(run, check)
