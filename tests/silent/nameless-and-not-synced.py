"""A file without a name is written and gets its name, and is not synced.

Source: open(2), O_TMPFILE: the file is filled "before being atomically linked into the filesystem
in a fully formed state", which says nothing of a crash."""

import os

from planted import ack, call, lost, main, sync

AT_FDCWD, FOLLOW = -100, 0x400


def run(right):
    file = os.open(".", os.O_RDWR | os.O_TMPFILE, 0o644)
    os.write(file, b"whole")
    if right:
        os.fsync(file)
    call("linkat", AT_FDCWD, b"/proc/self/fd/%d" % file, AT_FDCWD, b"file", FOLLOW)
    sync()
    ack("saved")


def check(right, acks):
    return lost("file", b"whole") if acks or os.path.exists("file") else None


main(run, check)
