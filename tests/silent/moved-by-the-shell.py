"""A script writes with dd and renames with mv, and syncs nothing.

Source: dd(1), conv=fsync: "likewise, but also write metadata"; sync(1) with a file name."""

from planted import lost, main, sh


def run(right):
    how = " conv=fsync" if right else ""
    sh(f"echo whole | dd of=tmp status=none{how}; mv tmp file; sync .; echo saved")


def check(right, acks):
    return lost("file", b"whole\n") if acks else None


main(run, check)
