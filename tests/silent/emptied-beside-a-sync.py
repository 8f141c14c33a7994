"""A configuration is emptied and rewritten, and another file is synced in between.

Source: as above; docs/limits.md: a quiet disk shows only the writeback that happened."""

import os

from planted import ack, create, main, prepare, read, sync


def run(right):
    prepare(config=b"version 1", other=b"-")
    file = create("new" if right else "config", flags=os.O_TRUNC)
    os.write(file, b"version 2")
    os.fsync(create("other", b"+longer"))
    os.fsync(file)
    if right:
        os.rename("new", "config")
        sync()
    ack("version 2")


def check(right, acks):
    if "ready" in acks and read("config") not in (b"version 1", b"version 2"):
        return "the configuration is empty or missing"
    return "version 2 is lost" if "version 2" in acks and read("config") != b"version 2" else None


main(run, check)
