"""A lock file with a pid is believed after the machine has started again.

Source: PostgreSQL, postmaster.pid: a pid of another boot says nothing; flock(2) goes with its
process."""

import os

from planted import ack, create, main, read, sync


def run(right):
    os.fsync(create("lock", b"%d" % os.getpid(), flags=os.O_EXCL))
    sync()
    ack("started")
    os.fsync(create("data", b"whole"))
    sync()
    ack("written")
    os.unlink("lock")
    sync()


def check(right, acks):
    if not right and read("lock"):
        return "it does not start: another process has the lock"
    return "the data is lost" if "written" in acks and read("data") != b"whole" else None


main(run, check)
