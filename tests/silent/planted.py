"""What the programs of this folder share. Each is one file, that runs as

    NAME.py right|wrong DIR     the program, which keeps its files in DIR
    NAME.py right|wrong         its check, as `crashpoint app --check-server` wants it

`run(right)` is the program and `check(right, acks)` returns what is broken, if anything. Both
work in the directory of data. `right` is where the mistake is: search for it. Modules that take
long to import are imported where they are used: a sweep starts several checks."""

import os
import sys

PAGE = 4096


def main(run, check):
    right = sys.argv[1] == "right"
    if len(sys.argv) == 3:
        os.chdir(sys.argv[2])
        return run(right)
    for line in sys.stdin:
        directory, acks = line.rstrip("\n").split("\t")
        with open(acks) as lines:
            said = lines.read().splitlines()
        os.chdir(directory)
        broken = check(right, said)
        os.chdir("/")
        print(f"broken {broken}" if broken else "ok", "end", sep="\n", flush=True)


def ack(line):
    """Promises something."""
    os.write(1, line.encode() + b"\n")


def create(name, content=b"", flags=0, mode=0o644):
    """A file with this content; its descriptor."""
    file = os.open(name, os.O_RDWR | os.O_CREAT | flags, mode)
    if content:
        os.write(file, content)
    return file


def sync(name="."):
    """fsync of a file or directory."""
    file = os.open(name, os.O_RDONLY)
    os.fsync(file)
    os.close(file)


def prepare(**files):
    """Files that are there, durably, before the mistake; the line `ready` says so. They are
    written page by page: the kernel keeps what is written at once in one piece (a large folio)."""
    for name, content in files.items():
        file = create(name)
        for at in range(0, len(content), PAGE):
            os.write(file, content[at:at + PAGE])
        os.close(file)
    syncfs()
    ack("ready")


def syncfs(name="."):
    """syncfs of the file system of a file."""
    file = os.open(name, os.O_RDONLY)
    call("syncfs", file)
    os.close(file)


def read(name):
    """What is in a file; None if there is none."""
    try:
        with open(name, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def lost(name, content):
    """What is broken if this file is not there with this content."""
    found = read(name)
    if found is None:
        return f"{name} is lost"
    return None if found == content else f"{name} is damaged"


def call(name, *arguments):
    """A function of the C library."""
    import ctypes

    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype = ctypes.c_long
    result = function(*words)
    # Most return an int, of which -1 is this.
    if result in (-1, 0xFFFF_FFFF):
        raise OSError(ctypes.get_errno(), name)
    return result


def sh(script):
    """A script of the shell."""
    import subprocess

    subprocess.run(["/bin/sh", "-euc", script], check=True)
