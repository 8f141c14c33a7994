"""The directory is synced before the rename, not after it.

Source: the order of rename(2) and fsync(2); the helper `fsync_dir` is called one line too early."""

import os

from planted import ack, create, lost, main, sync


def run(right):
    os.fsync(create("file.tmp", b"whole"))
    if not right:
        sync()
    os.rename("file.tmp", "file")
    if right:
        sync()
    ack("saved")


def check(right, acks):
    return lost("file", b"whole") if acks else None


main(run, check)
