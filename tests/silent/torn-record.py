"""A record of several pages is appended, and a reader believes the length in its head.

Source: etcd issue 6379 (PACE, OSDI 2016): append wal 4184 4242, torn; ALICE (OSDI 2014): appends
are not atomic."""

import os
import struct
import zlib

from planted import PAGE, ack, create, main, read, sync

BODY = bytes(range(1, 251)) * 50


def run(right):
    file = create("log", flags=os.O_APPEND)
    os.fsync(file)
    sync()
    ack("ready")
    os.write(file, struct.pack("<II", len(BODY), zlib.crc32(BODY)) + BODY)
    os.fsync(file)
    ack("written")


def check(right, acks):
    found = read("log")
    if found is None or len(found) < 8:
        return "a record is lost" if "written" in acks else None
    length, checksum = struct.unpack("<II", found[:8])
    body = found[8:][:length]
    if right and (length == 0 or (len(body), zlib.crc32(body)) != (length, checksum)):
        return "a record is lost" if "written" in acks else None
    return None if body == BODY else "a record is damaged"


main(run, check)
