"""A counter of eight bytes lies across the first border of sectors of a page that is written whole.

Source: as for counter-across-sectors; most programs write whole pages."""

import os

from planted import PAGE, ack, create, main, prepare, read


def page_of(right, counter):
    at = 512 if right else 508
    page = bytearray(PAGE)
    page[at:at + 8] = counter
    return bytes(page), at


def run(right):
    prepare(page=page_of(right, b"1" * 8)[0])
    file = create("page")
    os.pwrite(file, page_of(right, b"2" * 8)[0], 0)
    os.fsync(file)
    ack("counted")


def check(right, acks):
    _, at = page_of(right, b"")
    found = (read("page") or b"")[at:at + 8]
    if "ready" in acks and len(set(found)) != 1:
        return "the counter is torn"


main(run, check)
