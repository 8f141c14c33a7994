"""Forks for ever: each process makes one child and ends, in several lines of descent; all note in
one file that they ran. What is missed when they are stopped goes on.

storm.py LOG
"""
import os, signal, sys

log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(4):
    if os.fork() == 0:
        while True:
            os.write(log, b".")
            if os.fork() > 0:
                os._exit(0)
print("ready", flush=True)
while True:
    signal.pause()
