"""A record of several writes is believed if the mark at its end is there.

Source: ZOOKEEPER-2560 (PACE, OSDI 2016): write 77 16323, write 16400 4209, write 20609 1: the last
is on the disk, and one before it is not."""

import os

from planted import PAGE, ack, create, main, read, sync

BODY = b"T" * (2 * PAGE)


def run(right):
    file = create("log")
    os.fsync(file)
    sync()
    os.pwrite(file, BODY[:PAGE], 0)
    os.pwrite(file, BODY[PAGE:], PAGE)
    if right:
        os.fdatasync(file)
    os.pwrite(file, b"B", 2 * PAGE)
    os.fdatasync(file)
    ack("logged")


def check(right, acks):
    found = read("log") or b""
    if found[len(BODY):] == b"B" and found[:len(BODY)] != BODY:
        return "a record with its mark is damaged"
    return "a record is lost" if acks and found != BODY + b"B" else None


main(run, check)
