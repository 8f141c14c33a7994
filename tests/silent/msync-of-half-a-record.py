"""A record lies across two pages, and msync gets the page in which it begins.

Source: msync(2): addr "must be a multiple of the page size", and its length goes from there; with
the length of the record alone its second half is missed."""

import mmap

from planted import PAGE, ack, create, main, prepare, read

AT, RECORD = PAGE - 4, b"RECORDED"


def run(right):
    prepare(table=b"-" * 2 * PAGE)
    memory = mmap.mmap(create("table"), 2 * PAGE)
    memory[AT:AT + len(RECORD)] = RECORD
    memory.flush(0, AT + len(RECORD) if right else AT)
    ack("changed")


def check(right, acks):
    if "changed" in acks and read("table")[AT:AT + len(RECORD)] != RECORD:
        return "half of the record is lost"


main(run, check)
