"""A file is moved with link and unlink, and the new name is not durable when the old one goes.

Source: link(2) and fsync(2); the way to move without replacing before renameat2(RENAME_NOREPLACE),
as qmail delivers to a maildir."""

import os

from planted import ack, main, prepare, read, sync


def run(right):
    prepare(old=b"mail")
    os.link("old", "new")
    if right:
        sync()
    os.unlink("old")
    sync()
    ack("moved")


def check(right, acks):
    if "ready" in acks and b"mail" not in (read("old"), read("new")):
        return "it has no name left"


main(run, check)
