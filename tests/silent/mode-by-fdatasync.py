"""A key becomes private after it was written, and only fdatasync is called.

Source: fsync(2): fdatasync "does not flush modified metadata unless that metadata is needed in
order to allow a subsequent data retrieval to be correctly handled"."""

import os

from planted import ack, create, main, sync


def run(right):
    file = create("key", b"secret")
    os.fsync(file)
    sync()
    os.fchmod(file, 0o600)
    os.fsync(file) if right else os.fdatasync(file)
    ack("private")


def check(right, acks):
    return "everybody can read it" if acks and os.stat("key").st_mode & 0o077 else None


main(run, check)
