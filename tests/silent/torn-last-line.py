"""A log of lines is refused if its last line is cut off or empty.

Source: nedb 4.1.2 refuses a torn last line; Redis, aof-load-truncated."""

import json
import os

from planted import PAGE, ack, create, main, read, sync

FIRST, SECOND = [json.dumps({"text": n * (PAGE + 500)}).encode() + b"\n" for n in "12"]


def run(right):
    file = create("lines", FIRST)
    os.fsync(file)
    sync()
    ack("1")
    os.write(file, SECOND)
    os.fsync(file)
    ack("2")


def check(right, acks):
    documents = 0
    for line in (read("lines") or b"").splitlines(keepends=True):
        try:
            json.loads(line)
        except ValueError:
            if not right:
                return "it does not start: a line is damaged"
            break
        documents += line.endswith(b"\n")
    return "a document is lost" if documents < len(acks) else None


main(run, check)
