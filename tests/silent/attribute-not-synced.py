"""An extended attribute with a checksum is set after the fsync.

Source: fsync(2) covers metadata that was changed before it; fsetxattr(2)."""

import os

from planted import ack, create, main, sync


def run(right):
    file = create("object", b"whole")
    if right:
        os.setxattr(file, "user.sum", b"w")
    os.fsync(file)
    sync()
    if not right:
        os.setxattr(file, "user.sum", b"w")
    ack("stored")


def check(right, acks):
    if acks and ("user.sum" not in os.listxattr("object")):
        return "the object has no checksum"


main(run, check)
