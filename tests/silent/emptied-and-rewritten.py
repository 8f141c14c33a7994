"""A configuration is rewritten in place, from the shell.

Source: open(2), O_TRUNC; bug 317781 of Ubuntu: files of length zero after a crash, from programs
that rewrite their configuration."""

from planted import ack, main, prepare, read, sh

REWRITE = "echo version 2 > config; sync config"
REPLACE = "echo version 2 > new; sync new; mv new config; sync ."


def run(right):
    prepare(config=b"version 1\n", other=b"")
    sh(REPLACE if right else REWRITE)
    ack("version 2")


def check(right, acks):
    if "ready" in acks and read("config") not in (b"version 1\n", b"version 2\n"):
        return "the configuration is empty or missing"
    return "version 2 is lost" if "version 2" in acks and read("config") != b"version 2\n" else None


main(run, check)
