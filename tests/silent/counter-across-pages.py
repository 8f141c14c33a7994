"""A counter of eight bytes lies across the border of two pages.

Source: a disk writes a sector as a whole, and nothing larger (ALICE, OSDI 2014, on atomicity)."""

import os

from planted import PAGE, ack, create, main, prepare, read

ONE, TWO = b"11111111", b"22222222"


def run(right):
    at = PAGE if right else PAGE - 4
    prepare(counters=b"-" * at + ONE + b"-" * (2 * PAGE - at - 8))
    file = create("counters")
    os.pwrite(file, TWO, at)
    os.fdatasync(file)
    ack("two")


def check(right, acks):
    found = (read("counters") or b"").strip(b"-")
    if "ready" in acks and found not in (ONE, TWO):
        return "the counter is neither one nor two"
    return "the counter is one" if "two" in acks and found != TWO else None


main(run, check)
