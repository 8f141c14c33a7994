"""A worker tells the parent through a pipe that it is done, and syncs then.

Source: hand-over between processes, as of a checkpointer; the parent's line promises what the
worker said."""

import os

from planted import ack, create, lost, main, sync


def run(right):
    end, start = os.pipe()
    back, go = os.pipe()
    if os.fork() == 0:
        file = create("part", b"rows")
        if right:
            os.fsync(file)
        os.write(start, b"done")
        os.read(back, 1)
        os.fsync(file)
        os._exit(0)
    os.read(end, 4)
    sync()
    ack("done")
    os.write(go, b"!")
    os.wait()


def check(right, acks):
    return lost("part", b"rows") if acks else None


main(run, check)
