"""Two pages are written with one write, and msync gets the first one.

Source: msync(2) keeps the pages of its range, however they came to be changed."""

import mmap
import os

from planted import PAGE, ack, create, main, prepare, read

NEW = b"N" * 2 * PAGE


def run(right):
    prepare(table=b"-" * 2 * PAGE)
    file = create("table")
    memory = mmap.mmap(file, 2 * PAGE)
    os.pwrite(file, NEW, 0)
    memory.flush(0, 2 * PAGE if right else PAGE)
    ack("changed")


def check(right, acks):
    return "half of it is old" if "changed" in acks and read("table") != NEW else None


main(run, check)
