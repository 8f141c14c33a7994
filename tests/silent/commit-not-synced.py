"""A transaction is committed by emptying the undo log, which is not synced: it is rolled back.

Source: Tokyo Cabinet 1.4.48, TSYNC: the truncation of the log is not synced before the commit
returns; SQLite's journal_mode=TRUNCATE syncs it for this reason."""

import os

from planted import ack, create, main, prepare, read


def run(right):
    prepare(data=b"old!", log=b"it was old!")
    data, log = create("data", b"new!"), create("log")
    os.fsync(data)
    os.ftruncate(log, 0)
    if right:
        os.fdatasync(log)
    ack("committed")


def check(right, acks):
    if "committed" in acks and read("log") == b"it was old!":
        return "the transaction is rolled back"


main(run, check)
