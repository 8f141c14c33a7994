"""A record of two sectors is overwritten in place without a checksum.

Source: etcd issue 6379 (PACE, OSDI 2016); a disk promises whole sectors, of 512 bytes, and a page
of the kernel has eight."""

import os

from planted import ack, create, main, prepare, read

OLD, NEW = b"1" * 1024, b"2" * 1024


def run(right):
    prepare(record=OLD, copy=OLD)
    for name in ["copy", "record"] if right else ["record"]:
        file = create(name)
        os.pwrite(file, NEW, 0)
        os.fdatasync(file)
    ack("written")


def check(right, acks):
    found = read("record")
    if right and found not in (OLD, NEW):
        found = read("copy")
    if "ready" in acks and found not in (OLD, NEW):
        return "the record is torn"
    return "the record is old" if "written" in acks and found != NEW else None


main(run, check)
