"""A page of two sectors is overwritten in place, and its undo record is not synced before.

Source: as for undo-log-after-data; here the page does harm only when it is torn: its first sector has
cells, and its second one says how many."""

import os

from planted import PAGE, create, main, prepare, read

SECTOR = 512


def run(right):
    prepare(undo=bytes(PAGE), page=b"0" * 2 * SECTOR)
    undo, page = create("undo"), create("page")
    os.pwrite(undo, b"U" * SECTOR, 0)
    if right:
        os.fsync(undo)
    os.pwrite(page, b"1" * 2 * SECTOR, 0)
    os.fsync(page)


def check(right, acks):
    if "ready" not in acks:
        return None
    undo, page = read("undo"), read("page")
    if not undo.startswith(b"U") and page[0:1] == b"0" and page[SECTOR:SECTOR + 1] == b"1":
        return "the page says that there is a cell which is not there"


main(run, check)
