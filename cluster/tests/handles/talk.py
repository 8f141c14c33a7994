"""Sends a line every few milliseconds over one connection, and prints each that comes back, with
the time; and how the connection ended, if it did.

talk.py ADDRESS
"""
import socket, sys, threading, time

connection = socket.create_connection((sys.argv[1], 9000))
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def listen():
    try:
        for line in connection.makefile("rb"):
            print("heard", line.decode().strip(), flush=True)
        print("end", flush=True)
    except OSError as error:
        print("error", error.errno, flush=True)


threading.Thread(target=listen, daemon=True).start()
number = 0
while True:
    try:
        connection.sendall(b"%d\n" % number)
    except OSError:
        time.sleep(600)
    number += 1
    time.sleep(0.005)
