"""A group commit acknowledges who came while it synced.

Source: the log of any database with group commit: who waits must be counted before the fsync
begins, and not after it (PostgreSQL, XLogFlush: the position is taken before the write)."""

import os
import threading

from planted import ack, create, main, read, sync


def run(right):
    file, waiting = create("log", flags=os.O_APPEND), []
    sync()

    def client(number):
        os.write(file, b"record %d\n" % number)
        waiting.append(number)

    def commit(come):
        group = list(waiting)
        os.fsync(file)
        come()
        for number in group if right else waiting:
            ack(f"{number}")

    client(1)
    second = threading.Thread(target=client, args=[2])
    commit(lambda: (second.start(), second.join()))
    if right:
        waiting.remove(1)
        commit(lambda: None)


def check(right, acks):
    found = (read("log") or b"").splitlines()
    if any(b"record %s" % line.encode() not in found for line in acks):
        return "a record is lost"


main(run, check)
