"""A copy-on-write tree syncs its new pages and the meta page that leads to them at once.

Source: the design of LMDB: data pages, fdatasync, then the meta page; lmdb.h says of MDB_NOSYNC
that "a system crash can corrupt the database"."""

import os

from planted import PAGE, ack, create, main, prepare, read

NEW = b"N" * PAGE


def run(right):
    prepare(tree=b"root 1".ljust(PAGE, b".") + b"O" * 15 * PAGE)
    file = create("tree")
    os.pwrite(file, NEW, 12 * PAGE)
    if right:
        os.fdatasync(file)
    os.pwrite(file, b"root 2", 0)
    os.fdatasync(file)
    ack("committed")


def check(right, acks):
    found = read("tree") or b""
    if found.startswith(b"root 2") and found[12 * PAGE:][:PAGE] != NEW:
        return "the root leads to an old page"
    return "the root is old" if "committed" in acks and not found.startswith(b"root 2") else None


main(run, check)
