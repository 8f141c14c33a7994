"""A counter of eight bytes lies across the border of two sectors, near its first byte.

Source: as above for a border of pages; a disk promises whole sectors, of 512 bytes."""

import os

from planted import PAGE, ack, create, main, prepare, read

AT, OLD, NEW = 511, b"1" * 8, b"2" * 8


def run(right):
    at = 512 if right else AT
    page = bytearray(PAGE)
    page[at:at + 8] = OLD
    prepare(counter=bytes(page))
    file = create("counter")
    os.pwrite(file, NEW, at)
    os.fsync(file)
    ack("counted")


def check(right, acks):
    at = 512 if right else AT
    found = (read("counter") or b"")[at:at + 8]
    if "ready" in acks and found not in (OLD, NEW):
        return "the counter is torn"


main(run, check)
