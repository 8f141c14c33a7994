"""Clusters with one planted mistake each. In the first two, a node appends what it is told to its log, and
the nodes that SYNCS names sync that before they answer.

- everywhere: a client writes an entry to all three nodes and takes it for safe, since one copy is
  enough. No node syncs. Right: one of them does.
- transfer: a debit is written on one node, and then a credit on another, which must not be there alone.
  The debit is not synced. Right: it is; the credit need not be.
- letters, node: a client delivers an entry to all three nodes. A majority is enough, so it takes the entry
  for safe. Each node writes it to a temporary file, syncs that and renames it. The temporary name has
  random letters, or the name of the node. No node syncs the directory. Right: those that SYNCS names do.

nodes.py node NAME | client KIND ADDRESS... | check KIND ACKS ADDRESS...
"""
import os
import socket
import sys

PORT = 7000
ENTRY = "first"
DELIVERING = ("letters", "node")


def temporary(kind, name):
    """A new file under a name of a kind, and that name."""
    if kind == "letters":
        # A sixth of what it takes to start a node, and most need it not.
        import tempfile

        return tempfile.mkstemp(prefix="tmp.", dir=".")
    path = f"tmp.{name}"
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), path


def deliver(kind, name, entry, syncs):
    file, path = temporary(kind, name)
    os.write(file, entry.encode())
    os.fsync(file)
    os.close(file)
    os.rename(path, entry)
    if syncs:
        directory = os.open(".", os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)


def serve(name):
    log = os.open("log", os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o644)
    syncs = name in os.environ["SYNCS"].split()
    if syncs:
        directory = os.open(".", os.O_RDONLY)
        os.fsync(directory)
    server = socket.create_server(("", PORT))
    print("ready", flush=True)
    while True:
        connection, _ = server.accept()
        with connection:
            line = connection.makefile().readline()
            if line.startswith("deliver "):
                _, kind, entry = line.split()
                deliver(kind, name, entry, syncs)
                connection.sendall(b"delivered\n")
            elif line == "list\n":
                connection.sendall("\n".join(os.listdir()).encode())
            elif line != "read\n":
                os.write(log, line.encode())
                if syncs:
                    os.fsync(log)
                connection.sendall(b"written\n")
            else:
                connection.sendall(os.pread(log, 4096, 0))


def ask(address, line):
    with socket.create_connection((address, PORT), 10) as connection:
        connection.sendall(f"{line}\n".encode())
        connection.shutdown(socket.SHUT_WR)
        return connection.makefile(errors="replace").read().split("\n")


def client(kind, addresses):
    if kind == "everywhere":
        for address in addresses:
            ask(address, ENTRY)
        print(ENTRY, flush=True)
    elif kind in DELIVERING:
        for address in addresses:
            ask(address, f"deliver {kind} entry")
        print("entry", flush=True)
    else:
        ask(addresses[0], "debit")
        ask(addresses[1], "credit")
        print("transferred", flush=True)


def check(kind, acks, addresses):
    if kind in DELIVERING:
        listed = [ask(address, "list") for address in addresses]
        for entry in open(acks).read().split():
            if sum(entry in names for names in listed) < 2:
                return f"broken {entry} is on no majority"
        return "ok"
    logs = [ask(address, "read") for address in addresses]
    if kind == "everywhere":
        for entry in open(acks).read().split():
            if not any(entry in log for log in logs):
                return f"broken {entry} is on no node"
    elif "credit" in logs[1] and "debit" not in logs[0]:
        return "broken there is a credit without its debit"
    return "ok"


mode, *words = sys.argv[1:]
if mode == "node":
    serve(words[0])
elif mode == "client":
    client(words[0], words[1:])
else:
    print(check(words[0], words[1], words[2:]))
