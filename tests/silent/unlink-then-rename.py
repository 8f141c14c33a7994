"""A file is removed before another one takes its place.

Source: HSQLDB 2.7 replaces db.properties this way; so do programs that come from Windows, where
rename does not replace."""

import os

from planted import ack, create, lost, main, prepare, read, sync


def run(right):
    prepare(file=b"old")
    os.fsync(create("file.tmp", b"new"))
    if not right:
        os.unlink("file")
        sync()
    os.rename("file.tmp", "file")
    sync()
    ack("replaced")


def check(right, acks):
    if "ready" in acks and read("file") is None:
        return "there is no file"
    return lost("file", b"new") if "replaced" in acks else None


main(run, check)
