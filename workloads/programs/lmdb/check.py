#!/usr/bin/python3
"""Looks at what a crash left of the environment of client.py.

    check.py DIR ACKS, or check.py --serve

LMDB reads what is in its pages without a checksum, and may be killed by it: a child looks, so that
this too is a verdict.
"""

import os
import signal
import sys
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import lmdb

import serving
from client import open_environment, totals, words

# What LMDB calls an error of what is in its files. Others, such as a full disk, are of the moment.
OF_THE_ENVIRONMENT = (lmdb.CorruptedError, lmdb.InvalidError, lmdb.PageNotFoundError, lmdb.PageFullError)
# Signals that a process gets for what it read.
CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE}


def verdict(directory, lines):
    last = max((int(line.split()[1]) for line in lines if line.startswith("committed ")), default=None)
    if not os.path.exists(os.path.join(directory, "environment", "data.mdb")):
        return None if last is None else "acknowledged commit 0 is lost: there is no data.mdb"
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        look(directory, last, write)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as answer:
        answer = answer.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in CRASHES:
        return f"LMDB is ended by {signal.Signals(os.WTERMSIG(status)).name} when it reads"
    if status != 0:
        raise RuntimeError(f"looking ended with wait status {status}")
    return answer or None


def look(directory, last, write):
    """In the child: writes what is wrong, and ends."""
    status = 0
    try:
        os.write(write, (wrong(directory, last) or "").encode())
    except Exception:
        traceback.print_exc()
        status = 1
    finally:
        os._exit(status)


def wrong(directory, last):
    try:
        entries, sums = contents(directory)
    except OF_THE_ENVIRONMENT as error:
        return f"the environment is damaged: {error}" if last is not None else None
    if entries is None:
        return None if last is None else "acknowledged commit 0 is lost"
    for place, (number, text) in enumerate(entries, start=1):
        if text != words(number):
            return f"entry {number} has a value that was never written"
        if number != place:
            return f"entry {place} is lost, and entry {number} is there"
    found = len(entries)
    if sums != totals(found):
        return f"half of a commit is there: {found} entries, and totals {sums}"
    if last is not None and found < last:
        return f"acknowledged commit {found + 1} is lost"
    if found > (0 if last is None else last + 1):
        return f"commit {found} is there, and was never begun"
    return None


def contents(directory):
    """The entries and the totals; nothing if there are no tables."""
    environment = open_environment(directory)
    with environment.begin() as transaction:
        names = [name for name, _ in transaction.cursor()]
        if not names:
            return None, None
        tables = [environment.open_db(name, txn=transaction, create=False) for name in (b"entries", b"totals")]
        entries = [(int(key), bytes(value)) for key, value in transaction.cursor(db=tables[0])]
        return entries, {bytes(key): bytes(value) for key, value in transaction.cursor(db=tables[1])}


if __name__ == "__main__":
    serving.main(verdict)
