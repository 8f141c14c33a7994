"""A directory is filled under another name and renamed, and its parent is not synced.

Source: rename(2) and fsync(2); atomic deployments and snapshots (etcd issue 22340)."""

import os

from planted import ack, create, lost, main, sync


def run(right):
    os.mkdir("release.tmp")
    os.fsync(create("release.tmp/program", b"whole"))
    sync("release.tmp")
    sync()
    os.rename("release.tmp", "release")
    if right:
        sync()
    ack("deployed")


def check(right, acks):
    return lost("release/program", b"whole") if acks else None


main(run, check)
