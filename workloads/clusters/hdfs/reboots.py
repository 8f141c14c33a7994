#!/usr/bin/env python3
"""Runs a program, and kills and starts it again whenever somebody connects to a port: a reboot that is part
of the work, and no fault.

    reboots.py PORT COMMAND...

It ends as the program does, if nobody asked for that."""
import socket
import subprocess
import sys
import threading
import time


class Program:
    def __init__(self, command):
        self.command = command
        self.changing = threading.Lock()
        self.process = subprocess.Popen(command)

    def reboot(self):
        with self.changing:
            self.process.kill()
            self.process.wait()
            self.process = subprocess.Popen(self.command)

    def ended(self):
        """The status that it ended with by itself, or None."""
        with self.changing:
            return self.process.poll()


def serve(listener, program):
    while True:
        connection, _ = listener.accept()
        with connection:
            program.reboot()


def main():
    port, *command = sys.argv[1:]
    program = Program(command)
    listener = socket.create_server(("", int(port)))
    threading.Thread(target=serve, args=(listener, program), daemon=True).start()
    while (status := program.ended()) is None:
        time.sleep(0.05)
    return status if status >= 0 else 128 - status


sys.exit(main())
