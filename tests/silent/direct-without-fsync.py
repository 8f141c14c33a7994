"""O_DIRECT is taken for durable.

Source: open(2), O_DIRECT: it "does not give the guarantees of the O_SYNC flag that data and
necessary metadata are transferred"."""

import mmap
import os

from planted import PAGE, ack, create, main, read, sync


def run(right):
    buffer = mmap.mmap(-1, PAGE)
    buffer[:] = b"D" * PAGE
    file = create("data", flags=os.O_DIRECT)
    os.fsync(file)
    sync()
    ack("ready")
    os.pwrite(file, buffer, 0)
    if right:
        os.fsync(file)
    ack("written")


def check(right, acks):
    return "the data is lost" if "written" in acks and read("data") != b"D" * PAGE else None


main(run, check)
