"""The buffer of the program is flushed, and the file is closed; neither syncs.

Source: close(2): "A successful close does not guarantee that the data has been successfully saved
to disk"."""

import os

from planted import ack, lost, main, sync


def run(right):
    with open("file", "wb") as file:
        file.write(b"whole")
        file.flush()
        if right:
            os.fsync(file.fileno())
    sync()
    ack("saved")


def check(right, acks):
    return lost("file", b"whole") if acks else None


main(run, check)
