"""The mark of a clean shutdown is removed, and that is not durable when data changes.

Source: the bit "cleanly unmounted" of ext2, and the like in stores; fsync(2) for the directory."""

import os

from planted import PAGE, ack, create, main, prepare, read, sync


def run(right):
    prepare(clean=b"", left=b"1" * PAGE, side=b"1" * PAGE)
    os.unlink("clean")
    if right:
        sync()
    for name in ["left", "side"]:
        file = create(name, b"2" * PAGE)
        os.fdatasync(file)
    ack("changed")


def check(right, acks):
    if read("clean") is not None and "ready" in acks and read("left") != read("side"):
        return "the sides differ, and it was shut down cleanly"


main(run, check)
