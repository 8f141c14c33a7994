"""SQLite with synchronous=OFF.

Source: https://sqlite.org/pragma.html#pragma_synchronous: with OFF, "the database might become
corrupted if the operating system crashes or the computer loses power"."""

import os
import sqlite3

from planted import ack, main


def run(right):
    database = sqlite3.connect("db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute(f"PRAGMA synchronous={'FULL' if right else 'OFF'}")
    database.execute("CREATE TABLE t (n)")
    ack("created")
    database.execute("INSERT INTO t VALUES (1)")
    ack("inserted")


def check(right, acks):
    if not os.path.exists("db"):
        return "there is no database" if acks else None
    try:
        database = sqlite3.connect("db")
        names = database.execute("SELECT name FROM sqlite_schema").fetchall()
        rows = database.execute("SELECT n FROM t").fetchall() if names else []
        database.close()
    except sqlite3.DatabaseError as error:
        return f"{error}"
    if acks and not names:
        return "the table is lost"
    return "the row is lost" if "inserted" in acks and not rows else None


main(run, check)
