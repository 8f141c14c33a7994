"""A new file gets its name before its data is on the disk.

Source: baidu/ins issue 32 (PACE, OSDI 2016): X.dbtmp is renamed to CURRENT, and never synced."""

import os

from planted import ack, create, lost, main, sync

WHOLE = b"MANIFEST-000002\n"


def run(right):
    file = create("current.tmp", WHOLE)
    if right:
        os.fsync(file)
    os.rename("current.tmp", "current")
    sync()
    ack("saved")


def check(right, acks):
    return lost("current", WHOLE) if acks or os.path.exists("current") else None


main(run, check)
