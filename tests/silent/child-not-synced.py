"""A child writes and ends, which its parent takes for durable.

Source: wait(2) and _exit(2) sync nothing; dump and backup commands that are run and waited for."""

import os

from planted import ack, create, lost, main, sync


def run(right):
    child = os.fork()
    if child == 0:
        file = create("dump", b"rows")
        if right:
            os.fsync(file)
        os._exit(0)
    os.waitpid(child, 0)
    sync()
    ack("dumped")


def check(right, acks):
    return lost("dump", b"rows") if acks else None


main(run, check)
