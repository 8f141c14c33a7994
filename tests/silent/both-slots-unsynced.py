"""A header is kept in two slots of a file, so that one can be damaged, and both are written without a sync.

Source: the two meta pages of LMDB and bbolt, the superblocks of file systems. No single lost write
breaks it."""

import os

from planted import PAGE, ack, main, prepare, read

OLD, NEW = b"header 1", b"header 2"


def run(right):
    prepare(store=OLD.ljust(PAGE) * 2)
    store = os.open("store", os.O_RDWR)
    for slot in range(2):
        os.pwrite(store, NEW, slot * PAGE)
        if right:
            os.fdatasync(store)
    ack("header 2")


def check(right, acks):
    store = read("store")
    if "header 2" in acks and NEW not in (store[:8], store[PAGE:PAGE + 8]):
        return "both headers are old"


main(run, check)
