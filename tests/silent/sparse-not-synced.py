"""A record far past the end of a sparse file is acknowledged without a sync.

Source: fsync(2); disk images of virtual machines. 8 bytes at 5 GiB once took Crashpoint 20 s."""

import os

from planted import ack, create, main, sync

FAR = 5 << 30


def run(right):
    file = create("image")
    os.fsync(file)
    sync()
    os.pwrite(file, b"far away", FAR)
    if right:
        os.fsync(file)
    ack("written")


def check(right, acks):
    if acks:
        file = os.open("image", os.O_RDONLY)
        found = os.pread(file, 8, FAR)
        os.close(file)
        return None if found == b"far away" else "the record is lost"


main(run, check)
