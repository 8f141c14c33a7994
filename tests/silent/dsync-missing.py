"""A log is written through a descriptor that was opened without O_DSYNC.

Source: open(2), O_DSYNC: it belongs to the open file description; a log that is opened again after
a rotation, without the flag (MySQL innodb_flush_method=O_DSYNC)."""

import os

from planted import ack, create, main, prepare, read


def run(right):
    prepare(log=b"")
    create("log", flags=os.O_DSYNC)
    log = create("log", flags=os.O_DSYNC if right else 0)
    os.write(log, b"record")
    ack("written")


def check(right, acks):
    return "the record is lost" if "written" in acks and read("log") != b"record" else None


main(run, check)
