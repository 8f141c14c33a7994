"""A file is renamed in a directory below, and the directory above is synced.

Source: fsync(2): the directory that contains the file is the one to sync."""

import os

from planted import ack, create, lost, main, sync


def run(right):
    os.mkdir("sub")
    os.fsync(create("sub/file.tmp", b"whole"))
    sync("sub")
    sync()
    os.rename("sub/file.tmp", "sub/file")
    sync("sub" if right else ".")
    ack("saved")


def check(right, acks):
    return lost("sub/file", b"whole") if acks else None


main(run, check)
