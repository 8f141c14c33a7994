"""A file that has its full size is taken for whole.

Source: fs/ext4/inode.c, ext4_map_blocks: data in unwritten extents is not ordered; default ext4
showed such files in three runs of three beside a neighbour that syncs.
docs/findings/ext4-replace.md has the cause."""

import os
import zlib

from planted import PAGE, ack, call, create, lost, main, read, sync

WHOLE = b"A" * (PAGE - 4)


def run(right):
    for number in range(8):
        file = create(f"table-{number}", WHOLE + zlib.crc32(WHOLE).to_bytes(4, "little"))
        call("sync_file_range", file, 0, 0, 2)
        os.fsync(create("other", b"%d" % number))
        os.fsync(file)
        os.close(file)
    sync()
    ack("written")


def check(right, acks):
    for number in range(8):
        found = read(f"table-{number}") or b""
        checksum = zlib.crc32(found[:-4]).to_bytes(4, "little")
        if len(found) != PAGE or (right and checksum != found[-4:]):
            if acks:
                return "a table is lost"
        elif found[:-4] != WHOLE:
            return "a table of full size is damaged"


main(run, check)
