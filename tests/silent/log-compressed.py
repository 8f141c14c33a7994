"""A log is compressed by gzip, which removes the log.

Source: gzip(1), --synchronous: "Use synchronous output. With this option, gzip is less likely to
lose data during a system crash"."""

import gzip
import os

from planted import ack, main, prepare, read, sh, sync

LINES = b"line\n" * 100


def run(right):
    prepare(log=LINES)
    sh("gzip --synchronous log" if right else "gzip log")
    sync()
    ack("compressed")


def check(right, acks):
    if "ready" not in acks or read("log") == LINES:
        return None
    try:
        return None if gzip.decompress(read("log.gz") or b"") == LINES else "the log is lost"
    except (EOFError, gzip.BadGzipFile):
        return "the log is damaged"


main(run, check)
