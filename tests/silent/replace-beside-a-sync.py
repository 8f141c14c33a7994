"""A file is replaced by rename without an fsync, and the sync of another file commits the rename.

Source: Documentation/admin-guide/ext4.rst, auto_da_alloc: ext4 promises more than the others;
docs/findings/ext4-replace.md."""

import os

from planted import create, main, prepare, read

OLD, NEW = b"old" * 1000, b"new!" * 4000


def run(right):
    prepare(file=OLD, other=b"-")
    file = create("file.tmp", NEW)
    if right:
        os.fsync(file)
    os.rename("file.tmp", "file")
    os.fsync(create("other", b"+longer"))


def check(right, acks):
    if "ready" in acks and read("file") not in (OLD, NEW):
        return "the file is neither old nor new"


main(run, check)
