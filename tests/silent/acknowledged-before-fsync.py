"""The acknowledgement is sent while another thread still syncs.

Source: Redis, appendfsync everysec (a background thread); "group commit" done wrong."""

import os
import threading

from planted import ack, create, lost, main, sync


def run(right):
    file = create("log")
    sync()
    os.write(file, b"record")
    told = threading.Event()
    flush = threading.Thread(target=lambda: (right or told.wait(), os.fsync(file)))
    flush.start()
    if right:
        flush.join()
    ack("written")
    told.set()
    flush.join()


def check(right, acks):
    return lost("log", b"record") if acks else None


main(run, check)
