"""Sends a line every few milliseconds over one connection, and prints each that comes back, with
the time; and how the connection ended, if it did.

talk.py ADDRESS
"""
import os, socket, sys, threading, time

connection = socket.create_connection((sys.argv[1], 9000))
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def say(line):
    # In one piece: whoever reads may do so at any time.
    os.write(1, line)


def listen():
    try:
        for line in connection.makefile("rb"):
            say(b"heard " + line)
        say(b"end\n")
    except OSError as error:
        say(b"error %d\n" % error.errno)


threading.Thread(target=listen, daemon=True).start()
number = 0
while True:
    try:
        connection.sendall(b"%d\n" % number)
    except OSError:
        time.sleep(600)
    number += 1
    time.sleep(0.005)
