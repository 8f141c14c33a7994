"""A file is made elsewhere and moved in, and only its name is synced.

Source: mv(1) and rename(2), EXDEV: it copies if it has to, and it syncs nothing."""

from planted import lost, main, prepare, sh


def run(right):
    prepare(other=b"")
    names = "file ." if right else "."
    sh(f"echo whole > ../made-outside; mv ../made-outside file; sync {names}; echo moved")


def check(right, acks):
    return lost("file", b"whole\n") if "moved" in acks else None


main(run, check)
