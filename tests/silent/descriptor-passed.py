"""A descriptor goes to another process over a socket, and the sender syncs before the receiver
writes.

Source: unix(7), SCM_RIGHTS: both have one open file, and the order of write and fsync is a matter
between processes."""

import os
import socket

from planted import ack, create, lost, main, sync


def run(right):
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        _, files, _, _ = socket.recv_fds(theirs, 1, 1)
        os.write(files[0], b"rows")
        theirs.send(b"!")
        os._exit(0)
    file = create("part")
    if not right:
        os.fsync(file)
    socket.send_fds(ours, [b"-"], [file])
    ours.recv(1)
    if right:
        os.fsync(file)
    sync()
    ack("done")


def check(right, acks):
    return lost("part", b"rows") if acks else None


main(run, check)
