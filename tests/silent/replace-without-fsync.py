"""A file is replaced by rename, and the new one's data was never synced.

Source: Documentation/admin-guide/ext4.rst, auto_da_alloc: "Many broken applications don't use
fsync() when replacing existing files"; docs/findings/ext4-replace.md."""

import os

from planted import ack, create, main, prepare, read, sync

OLD, NEW = b"old" * 1000, b"new!" * 4000


def run(right):
    prepare(file=OLD, other=b"-")
    file = create("file.tmp", NEW)
    if right:
        os.fsync(file)
    os.rename("file.tmp", "file")
    os.fsync(create("other", b"+"))
    sync()
    ack("replaced")


def check(right, acks):
    if "ready" in acks and read("file") not in (OLD, NEW):
        return "the file is neither old nor new"
    if "replaced" in acks and read("file") != NEW:
        return "the file is not new"


main(run, check)
