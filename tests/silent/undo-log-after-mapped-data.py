"""Data is changed through a mapping, and its undo log is synced only then.

Source: msync(2): "there is no guarantee that changes are written back before munmap(2) is called",
nor that they are not."""

import mmap
import os

from planted import ack, create, main, prepare, read


def run(right):
    prepare(data=b"old!", log=b"")
    memory, log = mmap.mmap(create("data"), 4), create("log")

    def change():
        memory[0:4] = b"new!"

    def write_log():
        os.write(log, b"it was old!")
        os.fsync(log)

    for step in [write_log, change] if right else [change, write_log]:
        step()
    memory.flush()
    ack("done")


def check(right, acks):
    if acks == ["ready"] and read("data") != b"old!" and read("log") != b"it was old!":
        return "nobody knows what it was"


main(run, check)
