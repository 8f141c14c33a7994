"""An old log is used again, and the end of the new records is written with the last of them.

Source: PostgreSQL recycles segments of its log: records past the end have valid checksums, so
that only their positions tell that they are old."""

import os

from planted import PAGE, ack, create, main, prepare, read

OLD = [b"old %d" % number for number in range(2)]


def page(sequence, text):
    return (b"%d " % sequence + text).ljust(PAGE, b".")


def run(right):
    prepare(log=page(1, OLD[0]) + page(2, OLD[1]))
    file = create("log")
    os.pwrite(file, page(3, b"new") + b"end ", 0)
    os.fdatasync(file)
    ack("new")


def check(right, acks):
    found, texts, last = read("log") or b"", [], 0
    for at in range(0, len(found), PAGE):
        sequence, _, text = found[at:at + PAGE].rstrip(b".").partition(b" ")
        if not sequence.isdigit() or (right and int(sequence) < last):
            break
        texts.append(text)
        last = int(sequence)
    if b"new" in texts and len(texts) > 1:
        return "an old record follows the new one"
    return "the record is lost" if "new" in acks and b"new" not in texts else None


main(run, check)
