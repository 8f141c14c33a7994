"""Two copies are overwritten in place from the log, and neither is synced when that is removed.

Source: fsync(2); superblocks and headers that are kept twice, in case one of them is damaged. No
single lost write breaks it, and neither does the loss of all that was not synced: the log is there
then."""

import os

from planted import create, main, prepare, read

OLD, NEW = b"old!", b"new!"


def run(right):
    prepare(one=OLD, two=OLD, log=NEW)
    for name in ["one", "two"]:
        file = create(name, NEW)
        if right:
            os.fsync(file)
    os.unlink("log")


def check(right, acks):
    if "ready" in acks and NEW not in (read("one"), read("two"), read("log")):
        return "both copies are old, and the log is gone"


main(run, check)
