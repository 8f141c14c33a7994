"""The old part of a log is punched out before the checkpoint is durable.

Source: fallocate(2), FALLOC_FL_PUNCH_HOLE; as above for logs that are kept in one file."""

import os

from planted import PAGE, ack, call, create, main, prepare, read

PUNCH, RECORD = 3, b"R" * PAGE


def run(right):
    prepare(data=b"-" * PAGE, log=RECORD)
    data, log = create("data", RECORD), create("log")
    if right:
        os.fsync(data)
    call("fallocate", log, PUNCH, 0, PAGE)
    os.fsync(log)
    ack("applied")


def check(right, acks):
    if "ready" in acks and RECORD not in (read("data"), read("log")):
        return "the record is neither in the data nor in the log"


main(run, check)
