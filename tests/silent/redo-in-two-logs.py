"""A redo record is kept in two logs, and neither is synced before the two pages that it is of are written
in place.

Source: the kernel writes back any dirty page at any time, and so may write one of the pages alone
(Documentation/admin-guide/sysctl/vm.rst, dirty_expire_centisecs)."""

import os

from planted import create, main, prepare, read


def run(right):
    prepare(one=b"-", other=b"-", bitmap=b"0", leaf=b"0")
    one, other, bitmap, leaf = (create(name) for name in ("one", "other", "bitmap", "leaf"))
    for log in (one, other):
        os.pwrite(log, b"R", 0)
        if right:
            os.fsync(log)
    for page in (bitmap, leaf):
        os.pwrite(page, b"1", 0)
    for page in (bitmap, leaf):
        os.fsync(page)


def check(right, acks):
    is_redone = b"R" in (read("one"), read("other"))
    if "ready" in acks and not is_redone and read("leaf") == b"1" and read("bitmap") == b"0":
        return "the leaf has a block that is free in the bitmap"


main(run, check)
