"""A new file is synced, and its name is not.

Source: fsync(2): "Calling fsync() does not necessarily ensure that the entry in the directory
containing the file has also reached disk." ALICE (OSDI 2014) looks for it in every system."""

import os

from planted import ack, create, lost, main, sync


def run(right):
    os.fsync(create("journal", b"begin"))
    if right:
        sync()
    ack("begun")


def check(right, acks):
    return lost("journal", b"begin") if acks else None


main(run, check)
