"""A store on one node: a client sends `put VALUE`, and is answered `ok`, or `error ERRNO` if it
could not be stored; it sends `all`, and is answered all values that the store holds.

store.py FILE (sync|forget)

With `forget` it leaves out the fsync before it answers.
"""
import os, socket, sys

path, mode = sys.argv[1:]
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("", 9000))
listener.listen()
made = os.path.exists(path)
log = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
if not made:
    os.fsync(log)
    parent = os.open(os.path.dirname(path), os.O_RDONLY)
    os.fsync(parent)


def put(value):
    try:
        os.write(log, value + b"\n")
        if mode == "sync":
            os.fsync(log)
        return "ok"
    except OSError as error:
        return f"error {error.errno}"


def get():
    try:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return " ".join(file.read().decode(errors="replace").split())
    except OSError as error:
        return f"error {error.errno}"


print("ready", flush=True)
while True:
    connection, _ = listener.accept()
    for line in connection.makefile("rb"):
        words = line.split()
        answer = put(words[1]) if words[0] == b"put" else get()
        connection.sendall(answer.encode() + b"\n")
