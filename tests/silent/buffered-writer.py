"""fsync is called, and the bytes are still in the buffer of the program.

Source: Python's os.fsync: "first do f.flush(), and then do os.fsync(f.fileno())"; fflush(3)."""

import os

from planted import ack, lost, main, sync


def run(right):
    with open("file", "wb") as file:
        file.write(b"whole")
        if right:
            file.flush()
        os.fsync(file.fileno())
        sync()
        ack("saved")


def check(right, acks):
    return lost("file", b"whole") if acks else None


main(run, check)
