"""A log is allocated before, which is taken for a reason not to sync its records.

Source: fallocate(2): it reserves blocks and their size; etcd and LogCabin allocate segments."""

import os

from planted import ack, create, main, read, sync


def run(right):
    file = create("segment")
    os.posix_fallocate(file, 0, 8192)
    os.fsync(file)
    sync()
    ack("ready")
    os.pwrite(file, b"record", 0)
    if right:
        os.fdatasync(file)
    ack("written")


def check(right, acks):
    if "written" in acks and not read("segment").startswith(b"record"):
        return "the record is lost"


main(run, check)
