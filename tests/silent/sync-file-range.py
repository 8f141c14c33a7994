"""sync_file_range is taken for fsync.

Source: sync_file_range(2): "This system call is extremely dangerous and should not be used in
portable programs. None of these operations writes out the file's metadata"."""

import os

from planted import ack, call, create, main, read, sync


def run(right):
    file = create("log")
    sync()
    os.write(file, b"record" * 1000)
    call("sync_file_range", file, 0, 0, 7)
    if right:
        os.fdatasync(file)
    ack("written")


def check(right, acks):
    return "the record is lost" if acks and read("log") != b"record" * 1000 else None


main(run, check)
