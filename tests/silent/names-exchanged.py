"""Two files change names, and the directory is not synced.

Source: renameat2(2), RENAME_EXCHANGE: atomic, and no more durable than a rename."""

import os

from planted import ack, call, lost, main, prepare, sync


def run(right):
    prepare(left=b"left", right=b"right")
    call("renameat2", -100, b"left", -100, b"right", 2)
    if right:
        sync()
    ack("exchanged")


def check(right, acks):
    return lost("left", b"right") if "exchanged" in acks else None


main(run, check)
