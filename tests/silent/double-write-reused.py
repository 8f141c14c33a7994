"""The double-write buffer gets the next page before the first one is durable at its place.

Source: MySQL, InnoDB doublewrite buffer: data files are synced before it is used again; what is
lost as a whole is in the redo log, what is torn is not."""

import os

from planted import PAGE, ack, create, main, prepare, read

OLD, NEW, NEXT = (letter * 3 * PAGE for letter in (b"1", b"2", b"3"))


def run(right):
    prepare(table=OLD, double=NEW)
    table, double = create("table"), create("double")
    os.pwrite(table, NEW, 0)
    if right:
        os.fdatasync(table)
    os.pwrite(double, NEXT, 0)
    os.fdatasync(double)
    ack("next")


def check(right, acks):
    if "next" in acks and read("table") not in (OLD, NEW):
        return "the page is torn, and its copy is gone"


main(run, check)
