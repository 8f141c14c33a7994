"""An update goes to the log and to its place at once, either of which is enough, and the log is not synced.

Source: ARIES (Mohan et al., TODS 1992), write-ahead logging. No single lost write breaks it."""

import os

from planted import ack, create, main, prepare, read


def run(right):
    prepare(log=b"start\n", table=b"old!")
    log = os.open("log", os.O_WRONLY | os.O_APPEND)
    os.write(log, b"new!\n")
    if right:
        os.fsync(log)
    create("table", b"new!")
    ack("updated")


def check(right, acks):
    is_updated = lambda: read("table") == b"new!" or read("log") == b"start\nnew!\n"
    if "updated" in acks and not is_updated():
        return "the update is lost"


main(run, check)
