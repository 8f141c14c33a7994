"""A value is written to three replicas, two of which must have it, and none is synced.

Source: Gifford, Weighted voting for replicated data (SOSP 1979). No single lost write breaks it."""

import os

from planted import ack, create, main, prepare, read

NAMES = ["one", "two", "three"]


def run(right):
    prepare(one=b"old!", two=b"old!", three=b"old!")
    for name in NAMES:
        file = create(name, b"new!")
        if right:
            os.fsync(file)
    ack("written")


def check(right, acks):
    votes = [read(name) for name in NAMES]
    if "written" in acks and votes.count(b"new!") < 2:
        return "no two replicas have the value"


main(run, check)
