#!/usr/bin/env python3
"""Client of a quorum queue of RabbitMQ.

    client.py prepare         makes the queue
    client.py work SECONDS    puts messages in and takes them out through all nodes, and prints a history: a JSON
                              object a line

A message that is confirmed is added to a set, and so it is delivered at least once: a consumer whose answer is
lost gets it again, as RabbitMQ says. On SIGTERM the queue is emptied, and the set is read: all messages that
were delivered to anybody. CRASHPOINT_NODE_<NAME> says where a node is."""
import glob
import json
import os
import pathlib
import signal
import sys
import threading
import time

sys.path[:0] = glob.glob(str(pathlib.Path(__file__).resolve().parents[3] / "target/neat/rabbitmq/pika-*.whl"))
import pika  # noqa: E402
import pika.exceptions  # noqa: E402

QUEUE = "crashpoint"
PAUSE_S = 0.1
WITHIN_S = 5
# Longer than a node takes for a client that is gone to be gone (three heartbeats): a message that such a client
# was given is in the queue again after that.
EMPTY_FOR_S = 13
EMPTIED_WITHIN_S = 90
# The last look's process has this number.
LAST = 1_000_000

NODES = [address for name, address in sorted(os.environ.items()) if name.startswith("CRASHPOINT_NODE_")]
printing = threading.Lock()
values = iter(range(1, 1 << 60))
delivered = set()
over = threading.Event()
FAILED = (pika.exceptions.AMQPError, OSError, AssertionError)


def say(**event):
    with printing:
        print(json.dumps({"key": "messages", **event}), flush=True)


def channel_to(address):
    connection = pika.BlockingConnection(pika.ConnectionParameters(
        address, socket_timeout=WITHIN_S, stack_timeout=WITHIN_S, blocked_connection_timeout=WITHIN_S, heartbeat=4))
    return connection.channel()


def prepare():
    until = time.monotonic() + 60
    while True:
        try:
            channel = channel_to(NODES[0])
            channel.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "quorum", "x-quorum-initial-group-size": len(NODES)})
            return
        except FAILED:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


class Producer(threading.Thread):
    """Sends one message after the other to a node."""

    def __init__(self, number, address):
        super().__init__(daemon=True)
        self.number = number
        self.address = address
        self.channel = None

    def run(self):
        while not over.is_set():
            try:
                if self.channel is None:
                    self.channel = channel_to(self.address)
                    self.channel.confirm_delivery()
            except FAILED:
                time.sleep(PAUSE_S)
                continue
            self.send()
            time.sleep(PAUSE_S)

    def send(self):
        with printing:
            value = next(values)
        event = {"process": self.number, "f": "add", "value": value}
        say(type="invoke", **event)
        try:
            # It waits for the confirmation. A message that is refused may be there all the same.
            self.channel.basic_publish("", QUEUE, str(value).encode(), pika.BasicProperties(delivery_mode=2))
            say(type="ok", **event)
        except FAILED as error:
            say(type="info", **event, error=repr(error)[:100])
            self.number += 2 * len(NODES)
            self.channel = None


class Consumer(threading.Thread):
    """Takes messages from a node."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address = address

    def run(self):
        channel = None
        while not over.is_set():
            try:
                channel = channel or channel_to(self.address)
                if not take(channel):
                    time.sleep(PAUSE_S)
            except FAILED:
                channel = None
                time.sleep(PAUSE_S)


def take(channel):
    """Whether there was a message."""
    method, _, body = channel.basic_get(QUEUE)
    if method is None:
        return False
    with printing:
        delivered.add(int(body))
    channel.basic_ack(method.delivery_tag)
    return True


def emptied():
    """Whether all nodes say that the queue is empty, and did for a while."""
    until = time.monotonic() + EMPTIED_WITHIN_S
    since = time.monotonic()
    while time.monotonic() < until:
        for address in NODES:
            try:
                channel = channel_to(address)
                while take(channel):
                    since = time.monotonic()
                channel.connection.close()
            except FAILED as error:
                print(f"{address}: {error!r}", file=sys.stderr)
                since = time.monotonic()
        if time.monotonic() - since > EMPTY_FOR_S:
            return True
        time.sleep(0.5)
    return False


def work(seconds):
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    producers = [Producer(number, address) for number, address in enumerate(NODES)]
    # Most messages stay in the queue for a while.
    threads = [*producers, Consumer(NODES[-1])]
    for thread in threads:
        thread.start()
    over.wait(seconds)
    over.set()
    for thread in threads:
        thread.join(2 * WITHIN_S)
    say(type="invoke", process=LAST, f="read", value=None)
    if emptied():
        say(type="ok", process=LAST, f="read", value=sorted(delivered))
    else:
        say(type="fail", process=LAST, f="read", value=None, error="the queue cannot be emptied")


if __name__ == "__main__":
    prepare() if sys.argv[1] == "prepare" else work(float(sys.argv[2]))
