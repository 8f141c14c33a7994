"""The log is removed before what it was applied to is durable.

Source: https://sqlite.org/atomiccommit.html: the database is flushed before the journal is deleted;
LevelDB removes old logs after a compaction."""

import os

from planted import ack, create, main, prepare, read, sync


def run(right):
    prepare(data=b"old!", log=b"new!")
    data = create("data", b"new!")
    if right:
        os.fsync(data)
    os.unlink("log")
    sync()
    ack("applied")


def check(right, acks):
    if "ready" in acks and b"new!" not in (read("data"), read("log")):
        return "the change is neither in the data nor in the log"


main(run, check)
