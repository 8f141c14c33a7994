"""The checksum does not cover the length, so that zeros are records: crc32 of nothing is 0.

Source: tidwall/wal 1.2.1 (no checksum: a tail of zeros is thousands of entries); ZODB FileStorage;
docs/findings/ext4-growth.md."""

import os
import struct
import zlib

from planted import ack, create, main, read, sync

SECOND = b"second" * 10


def record(right, body):
    head = struct.pack("<I", len(body))
    return head + struct.pack("<I", zlib.crc32(head + body if right else body)) + body


def run(right):
    file = create("log", record(right, b"first"))
    os.fsync(file)
    sync()
    ack("ready")
    os.write(file, record(right, SECOND))
    os.fsync(create("other", b"-"))
    os.fsync(file)
    ack("written")


def check(right, acks):
    found, bodies = read("log") or b"", []
    while len(found) >= 8:
        length, _ = struct.unpack("<II", found[:8])
        body = found[8:][:length]
        if found[:8] + body != record(right, body):
            break
        bodies.append(body)
        found = found[8 + length:]
    least = 2 if "written" in acks else 1 if "ready" in acks else 0
    if bodies[:2] != [b"first", SECOND][:max(least, min(len(bodies), 2))] or len(bodies) > 2:
        return "the log has other records than were written"


main(run, check)
