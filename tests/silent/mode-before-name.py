"""A key becomes private, gets its name, and only the name is synced.

Source: chmod(2), rename(2) and fsync(2): the order of a mode and a name is one of two inodes."""

import os

from planted import ack, create, main, sync


def run(right):
    file = create("key.tmp", b"secret")
    os.fsync(file)
    sync()
    os.fchmod(file, 0o600)
    if right:
        os.fsync(file)
    os.rename("key.tmp", "key")
    sync()
    ack("made")


def check(right, acks):
    if os.path.exists("key") and os.stat("key").st_mode & 0o077:
        return "everybody can read it"
    return "it is lost" if acks and not os.path.exists("key") else None


main(run, check)
