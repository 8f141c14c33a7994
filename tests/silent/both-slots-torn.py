"""A page is kept in two slots, so that one can be torn, and both are written without a sync between.

Source: LMDB and others keep two meta pages, and write one at a time; a disk promises whole sectors, of
512 bytes. Each slot says by its bytes whether it is whole, as a checksum would."""

import os

from planted import PAGE, create, main, prepare, read


def run(right):
    prepare(slots=b"1" * 2 * PAGE)
    file = create("slots")
    for slot in range(2):
        os.pwrite(file, b"2" * PAGE, slot * PAGE)
        if right:
            os.fsync(file)


def check(right, acks):
    slots = read("slots") or b""
    is_whole = [len(set(slots[at:at + PAGE])) == 1 for at in (0, PAGE)]
    if "ready" in acks and not any(is_whole):
        return "both slots are torn"


main(run, check)
