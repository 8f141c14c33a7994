"""A file is moved to another directory, and only the one that it left is synced.

Source: rename(2) and fsync(2); two directories change, so two are to be synced."""

import os

from planted import ack, create, lost, main, sync


def run(right):
    for name in ["inbox", "done"]:
        os.mkdir(name)
    os.fsync(create("inbox/1", b"whole"))
    sync("inbox")
    sync()
    os.rename("inbox/1", "done/1")
    if right:
        sync("done")
    sync("inbox")
    ack("done")


def check(right, acks):
    return lost("done/1", b"whole") if acks else None


main(run, check)
