"""A file and its mapping grow, and msync gets what was there before.

Source: mremap(2) and msync(2); stores that grow with their mapping and remember its old length."""

import mmap

from planted import PAGE, ack, create, main, prepare, read


def run(right):
    prepare(log=b"-" * PAGE)
    memory = mmap.mmap(create("log"), PAGE)
    memory.resize(2 * PAGE)
    memory[PAGE:PAGE + 6] = b"record"
    memory.flush(0, 2 * PAGE if right else PAGE)
    ack("written")


def check(right, acks):
    found = read("log") or b""
    return "the record is lost" if "written" in acks and found[PAGE:PAGE + 6] != b"record" else None


main(run, check)
