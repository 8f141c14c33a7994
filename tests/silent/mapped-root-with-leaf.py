"""A tree in a mapping syncs a leaf and the root that leads to it with one msync.

Source: LMDB with MDB_WRITEMAP, which syncs twice for this; msync(2) writes its pages in any
order."""

import mmap

from planted import PAGE, ack, create, main, prepare, read


def run(right):
    prepare(tree=b"-" * 8 * PAGE)
    memory = mmap.mmap(create("tree"), 8 * PAGE)
    memory[6 * PAGE:6 * PAGE + 4] = b"leaf"
    if right:
        memory.flush()
    memory[0:4] = b"root"
    memory.flush()
    ack("committed")


def check(right, acks):
    found = read("tree") or b""
    if found.startswith(b"root") and found[6 * PAGE:6 * PAGE + 4] != b"leaf":
        return "the root leads to nothing"
    return "the root is lost" if "committed" in acks and found[:4] != b"root" else None


main(run, check)
