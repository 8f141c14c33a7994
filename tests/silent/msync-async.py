"""A mapping is flushed with MS_ASYNC, which only asks for it.

Source: msync(2): "Since Linux 2.6.19, MS_ASYNC is in fact a no-op"; LMDB with MDB_MAPASYNC."""

import ctypes
import mmap

from planted import PAGE, ack, call, create, main, prepare, read

MS_ASYNC, MS_SYNC = 1, 4


def run(right):
    prepare(page=b"-" * PAGE)
    memory = mmap.mmap(create("page"), PAGE)
    memory[0:4] = b"meta"
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    call("msync", start, PAGE, MS_SYNC if right else MS_ASYNC)
    ack("changed")


def check(right, acks):
    return "the page is old" if "changed" in acks and read("page")[:4] != b"meta" else None


main(run, check)
