"""A named pipe is made for others to find, and the directory is not synced.

Source: mkfifo(3) and fsync(2)."""

import os
import stat

from planted import ack, main, prepare, sync


def run(right):
    prepare(pid=b"1")
    os.mkfifo("control")
    if right:
        sync()
    ack("made")


def check(right, acks):
    there = os.path.exists("control") and stat.S_ISFIFO(os.stat("control").st_mode)
    return "there is no pipe" if "made" in acks and not there else None


main(run, check)
