"""The last of several writes has no RWF_DSYNC.

Source: pwritev2(2), RWF_DSYNC: it "is meaningful only for pwritev2(), and its effect applies only
to the data range written by the system call"."""

import os

from planted import PAGE, ack, create, main, prepare, read


def run(right):
    prepare(log=b"-" * 2 * PAGE)
    log = create("log")
    os.pwritev(log, [b"head"], 0, os.RWF_DSYNC)
    os.pwritev(log, [b"tail"], PAGE, os.RWF_DSYNC if right else 0)
    ack("written")


def check(right, acks):
    return "the tail is lost" if "written" in acks and b"tail" not in read("log") else None


main(run, check)
