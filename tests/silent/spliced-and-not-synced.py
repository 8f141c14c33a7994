"""What comes through a pipe is spliced into a file, and only its name is synced.

Source: splice(2), as proxies that store what they receive use it."""

import os

from planted import ack, create, lost, main, sync


def run(right):
    end, start = os.pipe()
    os.write(start, b"message")
    file = create("stored")
    os.splice(end, file, 7)
    if right:
        os.fsync(file)
    sync()
    ack("stored")


def check(right, acks):
    return lost("stored", b"message") if acks else None


main(run, check)
