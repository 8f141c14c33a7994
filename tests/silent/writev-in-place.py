"""A slot of a file that was allocated before gets header and body with one writev, and the header
says that it is valid.

Source: writev(2) is atomic to other writers, and to no crash; slots of journals as in LogCabin
issue 221 (a file of zeros, then its version)."""

import os

from planted import PAGE, ack, create, main, prepare, read

HEAD, BODY = b"valid".ljust(PAGE, b"."), b"B" * 2 * PAGE


def run(right):
    prepare(slots=b"\0" * 3 * PAGE)
    file = create("slots")
    if right:
        os.pwrite(file, BODY, PAGE)
        os.fdatasync(file)
        os.pwrite(file, HEAD, 0)
    else:
        os.pwritev(file, [HEAD, BODY], 0)
    os.fdatasync(file)
    ack("written")


def check(right, acks):
    found = read("slots") or b""
    if found[:5] == b"valid" and found[PAGE:] != BODY:
        return "a valid slot has no body"
    return "the slot is lost" if "written" in acks and found[:5] != b"valid" else None


main(run, check)
