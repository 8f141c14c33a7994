"""A new version is installed by rename in two directories, either of which is enough, and neither is synced.

Source: rename(2) and fsync(2); RAID-1 in user space, as of configurations. With names in any order no
single lost operation breaks it."""

import os

from planted import ack, create, main, read, sync, syncfs


def run(right):
    for name in ["one", "two"]:
        os.mkdir(name)
        create(f"{name}/next", b"new!")
        create(f"{name}/version", b"old!")
    syncfs()
    ack("ready")
    for name in ["one", "two"]:
        os.rename(f"{name}/next", f"{name}/version")
        if right:
            sync(name)
    ack("installed")


def check(right, acks):
    if "installed" in acks and b"new!" not in (read("one/version"), read("two/version")):
        return "both directories have the old version"


main(run, check)
