"""A lock is taken with link(2), as for NFS, and counts on the number of links of its file.

Source: open(2), O_EXCL: "use link(2) [...] and use stat(2) on the unique file to check if its link
count has increased to 2"."""

import os

from planted import ack, main, prepare, sync


def run(right):
    prepare(host=b"me")
    os.link("host", "lock")
    if right:
        sync()
    ack("locked")


def check(right, acks):
    if "locked" in acks and os.stat("host").st_nlink != 2:
        return f"the file has {os.stat('host').st_nlink} links"


main(run, check)
