"""A record is acknowledged, and nothing syncs it.

Source: baidu/ins issue 32 (PACE, OSDI 2016: "ACK without fsync"); H2 with WRITE_DELAY=0."""

import os

from planted import ack, create, main, read, sync


def run(right):
    file = create("log", flags=os.O_APPEND)
    sync()
    for number in range(3):
        os.write(file, b"record %d\n" % number)
        if right:
            os.fdatasync(file)
        ack(f"{number}")


def check(right, acks):
    if acks and len((read("log") or b"").splitlines()) < len(acks):
        return "a record is lost"


main(run, check)
