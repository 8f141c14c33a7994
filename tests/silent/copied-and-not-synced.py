"""A backup is made with copy_file_range, and only its name is synced.

Source: copy_file_range(2) copies in the kernel, and promises nothing of a crash."""

import os

from planted import ack, create, lost, main, prepare, sync


def run(right):
    prepare(data=b"data" * 1000)
    backup = create("backup")
    os.copy_file_range(create("data"), backup, 4000)
    if right:
        os.fsync(backup)
    sync()
    ack("copied")


def check(right, acks):
    return lost("backup", b"data" * 1000) if "copied" in acks else None


main(run, check)
