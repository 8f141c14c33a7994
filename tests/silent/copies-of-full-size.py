"""Two copies of their full size are taken for written, since one damaged copy would be mended.

Source: docs/findings/ext4-replace.md: files of full size that are zeros. No single lost write breaks
it, and neither does the loss of all that was not synced: the copies have no names then."""

import os

from planted import PAGE, create, main, prepare, read

RECORD = b"R" * PAGE


def run(right):
    prepare(log=RECORD)
    for name in ["one", "two"]:
        file = create(name, RECORD)
        if right:
            os.fsync(file)
    os.mkdir("done")


def check(right, acks):
    copies = [read("one") or b"", read("two") or b""]
    are_whole = os.path.exists("done") and all(len(copy) == PAGE for copy in copies)
    if are_whole and RECORD not in copies:
        return "both copies have their size, and neither has the record"


main(run, check)
