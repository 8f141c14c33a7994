"""Logs are rotated, and a record of the one in the middle is acknowledged, which is not synced.

Source: logrotate(8), which renames each log to the next number, the oldest first. The twin promises
nothing of that record: what it has synced must be there whatever becomes of the log in the middle."""

import os

from planted import ack, create, main, sync

LOGS = ("log", "log.1", "log.2")


def rotate():
    for older, newer in ((LOGS[1], LOGS[2]), (LOGS[0], LOGS[1])):
        if os.path.exists(older):
            os.rename(older, newer)


def run(right):
    for number in range(3):
        rotate()
        log = create("log", b"record %d\n" % number)
        is_middle = number == 1
        if not is_middle:
            os.fsync(log)
        if number == 0:
            sync()
        if not (is_middle and right):
            ack(f"record {number}")


def check(right, acks):
    logs = [open(name).read() for name in LOGS if os.path.exists(name)]
    for line in acks:
        if not any(line in log for log in logs):
            return "a record is lost"


main(run, check)
