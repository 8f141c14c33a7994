"""A shelf is synced, with Python's dbm.dumb below.

Source: Lib/dbm/dumb.py, _commit: the index is renamed to .bak and written anew, and nothing is ever
fsynced; the documentation of shelve says that sync() synchronizes "the persistent dictionary on
disk, if feasible"."""

import dbm.dumb
import os
import shelve

from planted import ack, main, sync


def run(right):
    os.mkdir("new" if right else "shelf")
    folder = "new" if right else "shelf"
    shelf = shelve.Shelf(dbm.dumb.open(f"{folder}/shelf"))
    shelf["key"] = "value"
    shelf.sync()
    if right:
        for name in os.listdir(folder):
            sync(f"{folder}/{name}")
        sync(folder)
        os.rename("new", "shelf")
    sync()
    ack("stored")


def check(right, acks):
    if not acks:
        return None
    try:
        shelf = shelve.Shelf(dbm.dumb.open("shelf/shelf", "r"))
        return None if shelf["key"] == "value" else "the value is damaged"
    except Exception as error:
        return f"{type(error).__name__}"


main(run, check)
