#!/usr/bin/python3
"""Makes transactions in an LMDB environment and says which of them were committed.

    client.py DIR sync|nometasync|nosync [TRANSACTIONS]

The environment is DIR/environment. Commit 0 makes the tables; commit N, from 1 to TRANSACTIONS (4),
adds entry N and writes into the other table what all entries come to. `committed N` is printed when
commit N has returned. CRASHPOINT_OPERATIONS in the environment is the most that it makes.
"""

import os
import sys

import lmdb

TRANSACTIONS = 4
MAP_BYTES = 1 << 20
MODES = {"sync": {}, "nometasync": {"metasync": False}, "nosync": {"sync": False}}


def words(number):
    """What entry `number` says. An entry does not fit into a page."""
    return " ".join(f"{number}:{word}" for word in range(800)).encode()


def open_environment(directory, **flags):
    path = os.path.join(directory, "environment")
    return lmdb.open(path, map_size=MAP_BYTES, max_dbs=2, **flags)


def totals(entries):
    return {b"entries": b"%d" % entries, b"length": b"%d" % sum(len(words(n)) for n in range(1, entries + 1))}


def commit(environment, number):
    tables = [environment.open_db(name) for name in (b"entries", b"totals")] if number else None
    with environment.begin(write=True) as transaction:
        entries, sums = tables or [environment.open_db(name, txn=transaction) for name in (b"entries", b"totals")]
        if number:
            transaction.put(b"%08d" % number, words(number), db=entries)
        for name, total in totals(number).items():
            transaction.put(name, total, db=sums)
    # One call, so that the line is there or is not.
    os.write(1, f"committed {number}\n".encode())


def sync_directory(path):
    directory = os.open(path, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[2] not in MODES:
        print("usage: client.py DIR sync|nometasync|nosync [TRANSACTIONS]", file=sys.stderr)
        sys.exit(2)
    environment = open_environment(sys.argv[1], **MODES[sys.argv[2]])
    # LMDB does not sync the names of what it makes: that is left to whoever calls it.
    sync_directory(os.path.join(sys.argv[1], "environment"))
    sync_directory(sys.argv[1])
    transactions = int(sys.argv[3]) if len(sys.argv) == 4 else TRANSACTIONS
    most = int(os.environ.get("CRASHPOINT_OPERATIONS", transactions))
    for number in range(min(transactions, most) + 1):
        commit(environment, number)
    environment.close()


if __name__ == "__main__":
    main()
