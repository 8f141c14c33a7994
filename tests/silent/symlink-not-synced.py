"""A symbolic link makes a version the current one, and the directory is not synced.

Source: symlink(2); an fsync of the link's path is one of the file that it leads to."""

import os

from planted import ack, main, prepare, sync


def run(right):
    prepare(**{"version-1": b"whole"})
    os.symlink("version-1", "current")
    sync("." if right else "current")
    ack("current")


def check(right, acks):
    if "current" in acks and not os.path.islink("current"):
        return "nothing is current"


main(run, check)
