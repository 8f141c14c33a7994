"""A store through a mapping is acknowledged without msync.

Source: msync(2): "Without use of this call, there is no guarantee that changes are written back
before munmap(2) is called"."""

import mmap

from planted import ack, create, main, prepare, read


def run(right):
    prepare(counter=b"0000")
    memory = mmap.mmap(create("counter"), 4)
    memory[0:4] = b"0001"
    if right:
        memory.flush()
    ack("counted")


def check(right, acks):
    return "the count is lost" if "counted" in acks and read("counter") != b"0001" else None


main(run, check)
