"""A record is kept at both ends of a page, so that one copy can be torn, and the page is written at once.

Source: as for copies-in-one-write; here no single part of the page has both copies."""

import os

from planted import PAGE, create, main, prepare, read

COPY = 1024
PLACES = (0, PAGE - COPY)


def run(right):
    prepare(copies=b"1" * PAGE)
    file = create("copies")
    if right:
        for place in PLACES:
            os.pwrite(file, b"2" * COPY, place)
            os.fsync(file)
    else:
        os.pwrite(file, b"2" * PAGE, 0)


def check(right, acks):
    copies = read("copies") or b""
    is_whole = [len(set(copies[at:at + COPY])) == 1 for at in PLACES]
    if "ready" in acks and not any(is_whole):
        return "both copies are torn"


main(run, check)
