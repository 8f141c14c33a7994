"""A page is stored to, synced, and stored to again.

Source: msync(2): it keeps what was stored before it."""

import mmap
import os

from planted import PAGE, ack, create, main, prepare, read


def run(right):
    prepare(page=b"-" * PAGE)
    file = create("page")
    memory = mmap.mmap(file, PAGE)
    memory[0:4] = b"body"
    if not right:
        os.fsync(file)
    memory[8:12] = b"mark"
    if right:
        os.fsync(file)
    ack("stored")


def check(right, acks):
    return "the mark is lost" if "stored" in acks and b"mark" not in read("page") else None


main(run, check)
