"""A file is removed, and the directory is not synced: what was deleted comes back.

Source: SQLite, journal_mode=DELETE with synchronous=FULL: a committed transaction may roll back;
with EXTRA the directory is synced (pragma.html#pragma_synchronous)."""

import os

from planted import ack, main, prepare, read, sync


def run(right):
    prepare(secret=b"secret")
    os.unlink("secret")
    if right:
        sync()
    ack("deleted")


def check(right, acks):
    return "it is back" if "deleted" in acks and read("secret") is not None else None


main(run, check)
