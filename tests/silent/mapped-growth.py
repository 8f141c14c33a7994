"""A file grows by ftruncate and is filled through a mapping, without msync.

Source: msync(2), and POSIX on synchronized I/O data integrity completion: what is needed to read
the data, such as the size, is kept with it."""

import mmap
import os

from planted import PAGE, ack, create, main, read, sync


def run(right):
    file = create("log")
    sync()
    os.ftruncate(file, PAGE)
    memory = mmap.mmap(file, PAGE)
    memory[0:6] = b"record"
    if right:
        memory.flush()
    ack("written")


def check(right, acks):
    return "the record is lost" if acks and (read("log") or b"")[:6] != b"record" else None


main(run, check)
