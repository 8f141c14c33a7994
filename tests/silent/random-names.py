"""Messages are delivered from files with random names, and the directory is not synced.

Source: write-file-atomic 7.0.1 and diskcache 5.6.3 rename files with random names, and never sync a
directory; rename(2) and fsync(2)."""

import os
import tempfile

from planted import ack, lost, main, sync


def run(right):
    for number in range(3):
        file, name = tempfile.mkstemp(dir=".")
        os.write(file, b"message %d" % number)
        os.fsync(file)
        os.rename(name, f"new-{number}")
        if right:
            sync()
        ack(f"{number}")


def check(right, acks):
    for number in acks:
        if broken := lost(f"new-{number}", b"message %s" % number.encode()):
            return broken


main(run, check)
