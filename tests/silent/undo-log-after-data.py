"""Data is changed in place, and its undo log is synced only then.

Source: Mohan et al., ARIES (1992): the rule that write-ahead logging is named for; the rollback
journal of SQLite is synced first for it (https://sqlite.org/atomiccommit.html)."""

import os

from planted import ack, create, main, prepare, read


def run(right):
    prepare(data=b"old!", log=b"")
    data, log = create("data"), create("log")

    def change():
        os.pwrite(data, b"new!", 0)

    def write_log():
        os.write(log, b"it was old!")
        os.fsync(log)

    for step in [write_log, change] if right else [change, write_log]:
        step()
    os.fdatasync(data)
    ack("done")


def check(right, acks):
    if acks == ["ready"] and read("data") != b"old!" and read("log") != b"it was old!":
        return "nobody knows what it was"


main(run, check)
