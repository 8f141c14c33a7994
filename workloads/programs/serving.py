"""How a check of a program speaks: one state, or one after the other."""

import sys
import traceback


def main(verdict):
    """Runs a check: `check.py DIR ACKS`, or `check.py --serve`.

    `verdict` gets the directory and the lines of the acknowledgements, and returns what is wrong, or
    None. What it raises is no verdict.
    """
    if sys.argv[1:] == ["--serve"]:
        serve(verdict)
    elif len(sys.argv) == 3:
        try:
            wrong = look(verdict, sys.argv[1], sys.argv[2])
        except Exception:
            traceback.print_exc()
            sys.exit(2)
        sys.exit(0 if wrong is None else 1)
    else:
        print("usage: check.py DIR ACKS, or check.py --serve", file=sys.stderr)
        sys.exit(2)


def serve(verdict):
    for line in sys.stdin:
        try:
            directory, acks = line.rstrip("\n").split("\t")
            look(verdict, directory, acks)
        except Exception:  # Of this state only: the next one may do.
            traceback.print_exc()
        print("end", flush=True)


def look(verdict, directory, acks):
    with open(acks, encoding="utf-8") as lines:
        wrong = verdict(directory, lines.read().splitlines())
    print("ok" if wrong is None else f"broken {wrong}", flush=True)
    return wrong
