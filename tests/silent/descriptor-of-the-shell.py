"""A script appends through a descriptor that it keeps open, and syncs the new file of its name.

Source: sync(1) opens its file by name; logs of scripts that are moved away while they are open."""

from planted import main, prepare, read, sh


def run(right):
    prepare(log=b"first\n")
    name = "log.1" if right else "log"
    sh(f"exec 3>>log; mv log log.1; : >log; echo second >&3; sync {name} .; echo done")


def check(right, acks):
    if "done" in acks and b"second" not in (read("log.1") or b""):
        return "the line is lost"


main(run, check)
