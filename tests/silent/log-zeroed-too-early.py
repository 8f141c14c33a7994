"""The header of a log is zeroed in place before the two copies of what it holds are durable.

Source: SQLite's journal_mode=PERSIST zeroes the header, after it has synced the database."""

import os

from planted import ack, create, main, prepare, read


def run(right):
    prepare(log=b"-", home=b"-", mirror=b"-")
    log, home, mirror = create("log"), create("home"), create("mirror")
    os.pwrite(log, b"R", 0)
    os.fsync(log)
    ack("set")
    for copy in (home, mirror):
        os.pwrite(copy, b"R", 0)
        if right:
            os.fsync(copy)
    os.pwrite(log, b"-", 0)


def check(right, acks):
    if "set" in acks and b"R" not in (read("log"), read("home"), read("mirror")):
        return "what was set is nowhere"


main(run, check)
