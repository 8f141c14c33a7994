"""Two pages of a mapping are changed, and msync gets the first only.

Source: msync(2): it flushes "the part of the file that corresponds to the memory area starting at
addr and having length length"."""

import mmap

from planted import PAGE, ack, create, main, prepare, read


def run(right):
    prepare(tree=b"-" * 2 * PAGE)
    memory = mmap.mmap(create("tree"), 2 * PAGE)
    memory[0:4] = b"root"
    memory[PAGE:PAGE + 4] = b"leaf"
    memory.flush(0, 2 * PAGE if right else PAGE)
    ack("changed")


def check(right, acks):
    if "changed" in acks and (read("tree") or b"")[PAGE:PAGE + 4] != b"leaf":
        return "the leaf is lost"


main(run, check)
