"""O_DSYNC is set with fcntl, which does not set it.

Source: fcntl(2), BUGS: "It is not possible to use F_SETFL to change the state of the O_DSYNC and
O_SYNC flags. Attempts to change the state of these flags are silently ignored"."""

import fcntl
import os

from planted import ack, create, main, prepare, read


def run(right):
    prepare(log=b"")
    log = create("log", flags=os.O_DSYNC if right else 0)
    fcntl.fcntl(log, fcntl.F_SETFL, os.O_DSYNC)
    os.write(log, b"record")
    ack("written")


def check(right, acks):
    return "the record is lost" if "written" in acks and read("log") != b"record" else None


main(run, check)
