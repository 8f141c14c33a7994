"""A child stores through the mapping that it has from its parent, which syncs nothing.

Source: fork(2) and mmap(2), MAP_SHARED: PostgreSQL-like servers whose workers share a file."""

import mmap
import os

from planted import ack, create, main, prepare, read


def run(right):
    prepare(slots=b"0000")
    file = create("slots")
    memory = mmap.mmap(file, 4)
    if os.fork() == 0:
        memory[0:4] = b"0001"
        os._exit(0)
    os.wait()
    if right:
        os.fsync(file)
    ack("stored")


def check(right, acks):
    return "the slot is old" if "stored" in acks and read("slots") != b"0001" else None


main(run, check)
