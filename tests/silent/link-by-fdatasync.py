"""A file gets a second name, and fdatasync is taken to keep it.

Source: fsync(2): fdatasync keeps what is needed to read the data, and a name is not; checkpoints of
RocksDB are hard links."""

import os

from planted import ack, create, lost, main, prepare, sync


def run(right):
    prepare(table=b"rows")
    os.link("table", "checkpoint")
    os.fdatasync(create("table"))
    if right:
        sync()
    ack("taken")


def check(right, acks):
    return lost("checkpoint", b"rows") if "taken" in acks else None


main(run, check)
