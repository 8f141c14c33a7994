"""A member of a cluster that tells all others that it lives, every few milliseconds, and logs what
it is told: lines of a sender's address and when that sent it, in nanoseconds of CLOCK_MONOTONIC. It
also answers each line that comes in over TCP with the same line.

peer.py LOG OTHER...
"""
import os, socket, sys, threading, time

PORT = 9000
EVERY_S = 0.005


def tell(udp, others):
    while True:
        for other in others:
            try:
                udp.sendto(b"%d" % time.monotonic_ns(), (other, PORT))
            except OSError:
                pass  # As long as the network is not there.
        time.sleep(EVERY_S)


def answer(listener):
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=echo, args=[connection], daemon=True).start()


def echo(connection):
    try:
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                connection.sendall(line)
    except OSError:
        pass


log = open(sys.argv[1], "a", buffering=1)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("", PORT))
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("", PORT))
listener.listen()
threading.Thread(target=tell, args=[udp, sys.argv[2:]], daemon=True).start()
threading.Thread(target=answer, args=[listener], daemon=True).start()
print("ready", flush=True)
while True:
    sent, (sender, _) = udp.recvfrom(100)
    log.write(f"{sender} {sent.decode()}\n")
