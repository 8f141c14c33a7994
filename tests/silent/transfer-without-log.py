"""Two files are changed that must change together, with a sync after each.

Source: Gray and Reuter, Transaction Processing (1992): what changes in two places needs a log."""

import os

from planted import ack, create, main, prepare, read


def run(right):
    prepare(alice=b"10", bob=b"00", log=b"-" * 10)
    if right:
        os.fsync(create("log", b"5 to bob: !"))
    for name in ["alice", "bob"]:
        os.fsync(create(name, b"05"))
    ack("paid")


def check(right, acks):
    has = (read("alice"), read("bob"))
    if right and read("log") == b"5 to bob: !":
        has = (b"05", b"05")
    if "ready" in acks and has not in ((b"10", b"00"), (b"05", b"05")):
        return "money is lost"
    return "the transfer is lost" if "paid" in acks and has != (b"05", b"05") else None


main(run, check)
