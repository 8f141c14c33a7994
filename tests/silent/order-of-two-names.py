"""Two files are renamed in an order that matters, and only the second one is synced.

Source: btrfs: the fsync of a file keeps its own names; PACE (OSDI 2016): redis issue 3487, two
renames."""

import os

from planted import ack, create, main, read, sync, syncfs


def run(right):
    os.mkdir("tables")
    os.mkdir("manifests")
    create("tables/1.tmp", b"table")
    manifest = create("manifests/1.tmp", b"table 1")
    syncfs()
    os.rename("tables/1.tmp", "tables/1")
    if right:
        sync("tables")
    os.rename("manifests/1.tmp", "manifests/1")
    os.fsync(manifest)
    sync("manifests")
    ack("installed")


def check(right, acks):
    if read("manifests/1") is not None and read("tables/1") is None:
        return "the manifest names a table that is not there"
    return "it is lost" if acks and read("manifests/1") is None else None


main(run, check)
