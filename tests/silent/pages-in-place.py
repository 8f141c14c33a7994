"""A page of a database that is three pages of the kernel is overwritten without a second copy.

Source: MySQL, InnoDB doublewrite buffer: pages of 16 KB are torn without it; PostgreSQL,
full_page_writes; Derby 10.16 does not start after half of a 32 KB page."""

import os

from planted import PAGE, ack, create, main, prepare, read

OLD, NEW = b"1" * 3 * PAGE, b"2" * 3 * PAGE


def run(right):
    prepare(table=OLD, double=b"-" * 3 * PAGE)
    table, double = create("table"), create("double")
    if right:
        os.pwrite(double, NEW, 0)
        os.fsync(double)
    os.pwrite(table, NEW, 0)
    os.fsync(table)
    ack("written")


def check(right, acks):
    page = read("table")
    if right and page not in (OLD, NEW):
        page = read("double")
    if "ready" in acks and page not in (OLD, NEW):
        return "the page is torn"
    return "the page is old" if "written" in acks and page != NEW else None


main(run, check)
