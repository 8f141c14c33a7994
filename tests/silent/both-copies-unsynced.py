"""A record is kept twice, in case one copy is damaged, and neither is synced.

Source: fsync(2); superblocks and headers that are kept twice. No single lost write breaks it."""

import os

from planted import ack, create, main, prepare, read


def run(right):
    prepare(one=b"old!", two=b"old!")
    for name in ["one", "two"]:
        file = create(name, b"new!")
        if right:
            os.fsync(file)
    ack("written")


def check(right, acks):
    if "written" in acks and b"new!" not in (read("one"), read("two")):
        return "both copies are old"


main(run, check)
