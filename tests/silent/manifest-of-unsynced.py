"""CURRENT is installed with every care, and the MANIFEST that it names was never synced.

Source: LevelDB and its children at creation (goleveldb 1.0.0, plyvel 1.5.1, iq80 0.12)."""

import os

from planted import ack, create, main, read, sync


def run(right):
    manifest = create("MANIFEST-1", b"tables")
    if right:
        os.fsync(manifest)
        sync()
    os.fsync(create("CURRENT.tmp", b"MANIFEST-1"))
    os.rename("CURRENT.tmp", "CURRENT")
    sync()
    ack("created")


def check(right, acks):
    if read("CURRENT") is not None and read("MANIFEST-1") != b"tables":
        return "CURRENT names a damaged MANIFEST"
    return "there is no CURRENT" if acks and read("CURRENT") is None else None


main(run, check)
