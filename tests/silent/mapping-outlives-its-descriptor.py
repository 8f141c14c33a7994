"""A file is closed when it is mapped, and what is stored then is never synced.

Source: mmap(2): "After the mmap() call has returned, the file descriptor, fd, can be closed
immediately without invalidating the mapping"."""

import ctypes
import mmap
import os

from planted import PAGE, ack, call, create, main, prepare, read


def run(right):
    prepare(page=b"-" * PAGE)
    file = create("page")
    start = call("mmap", 0, PAGE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file, 0)
    os.close(file)
    ctypes.memmove(start, b"meta", 4)
    if right:
        call("msync", start, PAGE, 4)
    ack("stored")


def check(right, acks):
    return "the page is old" if "stored" in acks and read("page")[:4] != b"meta" else None


main(run, check)
