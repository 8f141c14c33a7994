"""Two files of two directories change places, and one directory is synced.

Source: renameat2(2), RENAME_EXCHANGE, and fsync(2): two directories change, so two are to be
synced."""

import os

from planted import ack, call, create, main, read, sync, syncfs


def run(right):
    for name in ["live", "spare"]:
        os.mkdir(name)
        create(f"{name}/set", name.encode())
    syncfs()
    ack("ready")
    call("renameat2", -100, b"live/set", -100, b"spare/set", 2)
    sync("live")
    if right:
        sync("spare")
    ack("exchanged")


def check(right, acks):
    if "exchanged" in acks and (read("live/set"), read("spare/set")) != (b"spare", b"live"):
        return "they are not exchanged"


main(run, check)
