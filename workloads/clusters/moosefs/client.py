#!/usr/bin/env python3
"""Client of MooseFS: client.py SECONDS

Writes files and syncs them, one after the other, and prints a history: a JSON object a line. A write that takes
too long is unknown. On SIGTERM it mounts the file system anew, and reads all files. It needs a mount namespace of
its own, with which its mounts go."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3] / "target/neat/moosefs/root/usr/bin"
MASTER = os.environ["CRASHPOINT_NODE_MASTER"]
COPIES = "2"
# A file system in memory is mounted there, in this namespace only.
MOUNTS = "/mnt"
WITHIN_S = 5
PAUSE_S = 0.05
# A file is written to for so long.
FRESH_EVERY_S = 1.0
SERVED_WITHIN_S = 60
LAST = 1_000_000

over = threading.Event()


def say(**event):
    print(json.dumps(event), flush=True)


def mounted(name):
    """A directory below which the file system is mounted, once the master serves."""
    directory = f"{MOUNTS}/{name}"
    os.mkdir(directory)
    until = time.monotonic() + SERVED_WITHIN_S
    while subprocess.run([ROOT / "mfsmount", directory, "-H", MASTER], stdout=sys.stderr).returncode != 0:
        if time.monotonic() > until:
            sys.exit("the master does not serve")
        time.sleep(0.5)
    return directory


def within(seconds, what):
    """What a function returns in another thread, or an exception, in time; that thread may wait for longer."""
    came = []

    def run():
        try:
            came.append((True, what()))
        except OSError as error:
            came.append((False, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return came[0] if came else (False, TimeoutError("it does not return"))


def write(path, value):
    file = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        os.pwrite(file, b"%16d" % value, 0)
        os.fsync(file)
    finally:
        os.close(file)


def read(path):
    try:
        with open(path, "rb") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    # An empty file was made, and never written to. What no write has left is returned as it is, and accuses.
    if not text:
        return None
    return int(text) if text.strip().isdigit() else repr(text[:64])


def work(seconds):
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    subprocess.run(["mount", "-t", "tmpfs", "crashpoint", MOUNTS], check=True)
    directory = mounted("work")
    subprocess.run([ROOT / "mfssetgoal", COPIES, directory], check=True, stdout=sys.stderr)
    began, process, value, files = time.monotonic(), 0, 0, []
    while not over.is_set() and time.monotonic() - began < seconds:
        value += 1
        name = f"file-{int((time.monotonic() - began) / FRESH_EVERY_S)}"
        if name not in files:
            files.append(name)
        event = {"process": process, "f": "write", "key": name, "value": value}
        say(type="invoke", **event)
        is_done, error = within(WITHIN_S, lambda: write(f"{directory}/{name}", value))
        if is_done:
            say(type="ok", **event)
        else:
            say(type="info", **event, error=repr(error)[:100])
            process += 1
        time.sleep(PAUSE_S)
    look(files)
    # A mount that looks at itself while it is killed would wait for itself.
    for name in ("look", "work"):
        subprocess.run(["umount", "-l", f"{MOUNTS}/{name}"], check=False)


def look(files):
    directory = mounted("look")
    for name in files:
        event = {"process": LAST, "f": "read", "key": name}
        say(type="invoke", **event, value=None)
        until = time.monotonic() + SERVED_WITHIN_S
        is_read, value = within(SERVED_WITHIN_S, lambda: read(f"{directory}/{name}"))
        while not is_read and time.monotonic() < until:
            time.sleep(1)
            is_read, value = within(WITHIN_S, lambda: read(f"{directory}/{name}"))
        if is_read:
            say(type="ok", **event, value=value)
        else:
            say(type="fail", **event, value=None, error=repr(value)[:100])


if __name__ == "__main__":
    work(float(sys.argv[1]))
    sys.stdout.flush()
    # A thread that still waits does not keep it.
    os._exit(0)
