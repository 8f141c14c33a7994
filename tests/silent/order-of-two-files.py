"""An index is synced that points into a log that is not.

Source: ALICE (OSDI 2014): programs rely on the order in which different files persist, and file
systems do not keep it."""

import os

from planted import ack, create, main, prepare, read


def run(right):
    prepare(log=b"", index=b"")
    log = create("log")
    os.write(log, b"record")
    if right:
        os.fsync(log)
    os.fsync(create("index", b"0"))
    os.fsync(log)
    ack("done")


def check(right, acks):
    if read("index") == b"0" and read("log") != b"record":
        return "the index leads nowhere"


main(run, check)
