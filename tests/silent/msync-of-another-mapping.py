"""A page is stored to through one mapping, and msync gets a mapping of another file.

Source: msync(2) is about a file, whichever of its mappings is named; stores with one mapping to
read and one to write, as LMDB's tools have them."""

import mmap

from planted import PAGE, ack, create, main, prepare, read


def run(right):
    prepare(page=b"-" * PAGE, other=b"-" * PAGE)
    store = mmap.mmap(create("page"), PAGE)
    second = mmap.mmap(create("page" if right else "other"), PAGE)
    store[0:4] = b"meta"
    second.flush()
    ack("stored")


def check(right, acks):
    return "the page is old" if "stored" in acks and read("page")[:4] != b"meta" else None


main(run, check)
