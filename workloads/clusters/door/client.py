#!/usr/bin/env python3
"""Client and probe of the systems behind a door (Door.java).

    client.py work SECONDS THING...   works on all nodes, and prints a history: a JSON object a line
    client.py probe                   answers each line on its input with lines NODE ROLE MEMBERS, and `end`
    client.py together                waits until the nodes are together, and one of them leads
    client.py check                   prints `ok` if the nodes are together or come together, else `broken`

A THING is what processes work on that are bound to a node each, all at the same time: lock, semaphore,
counter, queue, map (values are written and read), kept (values are written, and read in the end
only), or lease (a lock that a node may lose: it counts as held only as long as that node, asked now and
then, says so). CRASHPOINT_NODE_<NAME> says where a node is.

On SIGTERM it waits until all nodes are one cluster again, or will not be, and takes a last look: each
node is asked for each value and counter, and the queues are emptied. Values of `kept` are not looked
at while nodes are apart: a system may promise them to be the same afterwards only."""
import json
import os
import random
import signal
import sys
import threading
import time
import urllib.error
import urllib.request

PORT = 8080
PAUSE_S = 0.3
# How long what can be held is held, by one process of a node each: one holds it for longer than others take
# to believe that the node is gone, the other one asks for it meanwhile.
HOLD_S = {"lock": (12, 0.3), "semaphore": (12, 0.3), "lease": (12, 0.3)}
LONG_S = 1
# Who holds a lease asks for it so often.
ASK_EVERY_S = 0.25
# Each queue has an element before anything else happens, for so long at most, and who holds something for
# long begins before the others: what is to be granted twice is there when nodes are parted early.
FILLED_WITHIN_S = 3
HEAD_START_S = 0.5
# Some of the systems wait for so long before they give up.
WITHIN_S = 9
# Objects are replaced by others after so long: one whose holder is unknown is never free again.
FRESH_EVERY_S = 20
# Those whose last value is all that is looked at.
KEPT_FRESH_EVERY_S = 1.5
# How long the nodes may take to be one cluster again, and for what they do then.
TOGETHER_WITHIN_S = float(os.environ.get("TOGETHER_WITHIN_S", "20"))
SETTLED_AFTER_S = 3
# Where there is such a role, one node has it.
LEADS = {"coordinator", "master", "active"}
# Processes of the last look have numbers from here on.
LAST = 1_000_000

NODES = {
    name.removeprefix("CRASHPOINT_NODE_").lower(): address
    for name, address in sorted(os.environ.items())
    if name.startswith("CRASHPOINT_NODE_")
}


class Unknown(Exception):
    """Nobody knows whether it was done."""


class NotDone(Exception):
    """It was not done, and will not be."""


def ask(address, session, *words, within=WITHIN_S):
    """What a node answers."""
    url = f"http://{address}:{PORT}/{session}/" + "/".join(str(word) for word in words)
    try:
        with urllib.request.urlopen(url, timeout=within) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        raise Unknown(words_of(error)) from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            raise NotDone("connection refused") from error
        raise Unknown(str(error.reason)) from error
    except OSError as error:
        raise Unknown(str(error)) from error


def words_of(error):
    """What was thrown, if it comes in time."""
    try:
        return error.read().decode()[:200]
    except OSError as late:
        return str(late)


# ---- the work ----

printing = threading.Lock()
values = iter(range(1, 1 << 60))
began = time.monotonic()
asked_to_end = threading.Event()
over = threading.Event()
filled = threading.Event()
filling = threading.Semaphore(0)
# What there is to look at in the end.
used = set()


def say(**event):
    with printing:
        print(json.dumps(event), flush=True)


class Process:
    """Does one operation after the other on one node."""

    def __init__(self, number, step, node, address, thing, hold_s):
        self.number = number
        self.step = step
        self.node = node
        self.address = address
        self.thing = thing
        self.hold_s = hold_s
        self.is_first = True
        self.random = random.Random(f"{os.environ.get('CRASHPOINT_SEED')} {number}")

    def work(self, seconds):
        if self.thing != "queue":
            filled.wait(FILLED_WITHIN_S)
            if self.hold_s < LONG_S:
                time.sleep(HEAD_START_S)
        while time.monotonic() - began < seconds and not over.is_set():
            fresh_every_s = KEPT_FRESH_EVERY_S if self.thing == "kept" else FRESH_EVERY_S
            key = f"{self.thing}-{int((time.monotonic() - began) / fresh_every_s)}"
            with printing:
                used.add((self.thing, key))
            getattr(self, self.thing)(key)
            time.sleep(PAUSE_S)

    def operate(self, f, key, operation, value=None, given=(), read=str):
        """One operation, with its beginning and its end. The answer if it was done, or None."""
        event = {"process": self.number, "f": f, "key": key, "value": value}
        say(type="invoke", **event)
        is_read = f == "read"
        try:
            answer = ask(self.address, f"p{self.number}", operation, key, *given)
        except NotDone as error:
            say(type="fail", **event, error=str(error))
            return None
        except Unknown as error:
            say(type="fail" if is_read else "info", **event, error=str(error))
            if not is_read:
                self.number += self.step
            return None
        if answer == "false":
            say(type="fail", **event, error="refused")
            return None
        event["value"] = value if read is None else None if answer == "null" else read(answer)
        say(type="ok", **event)
        return answer

    def write(self, key):
        with printing:
            value = next(values)
        self.operate("write", key, "put", value, [value], read=None)

    def map(self, key):
        if self.random.random() < 0.5:
            self.operate("read", key, "get", read=int)
        else:
            self.write(key)

    kept = write

    def placed(self, key):
        """There is one for each node to hold for long."""
        return f"{key}-{self.node if self.hold_s > LONG_S else self.random.randrange(len(NODES))}"

    def hold(self, key, take, give):
        key = self.placed(key)
        if self.operate("acquire", key, take, read=None) is not None:
            over.wait(self.hold_s)
            self.operate("release", key, give, read=None)

    def lock(self, key):
        self.hold(key, "lock", "unlock")

    def semaphore(self, key):
        self.hold(key, "permit", "return")

    def lease(self, key):
        key = self.placed(key)
        until = time.monotonic() + self.hold_s
        if self.operate("acquire", key, "lock", read=None) is None:
            return
        while time.monotonic() < until and not over.is_set():
            if not self.still_holds(key):
                return
        self.operate("release", key, "unlock", read=None)

    def still_holds(self, key):
        """From the call on it may be lost. If it is held after that, nothing was released meanwhile."""
        event = {"process": self.number, "f": "release", "key": key, "value": None}
        say(type="invoke", **event)
        over.wait(ASK_EVERY_S)
        try:
            is_held = ask(self.address, f"p{self.number}", "held", key) == "true"
        except (NotDone, Unknown):
            is_held = False
        if is_held:
            say(type="fail", **event, error="still held")
        else:
            say(type="info", **event, error="not held, or nobody knows")
            self.number += self.step
        return is_held

    def counter(self, key):
        if self.random.random() < 0.3:
            self.operate("read", key, "count", read=int)
        else:
            self.operate("inc", key, "inc", read=int)

    def queue(self, key):
        # An element that is there when nodes are parted is there on both sides.
        if self.is_first or self.random.random() < 0.6:
            with printing:
                value = next(values)
            self.operate("enqueue", key, "offer", value, [value], read=None)
            if self.is_first:
                self.is_first = False
                filling.release()
        else:
            self.take(key)

    def take(self, key):
        return self.operate("dequeue", key, "poll", read=int)


def work(seconds, things):
    signal.signal(signal.SIGTERM, lambda *_: asked_to_end.set())
    homes = [
        (node, address, thing, hold_s)
        for node, address in enumerate(NODES.values())
        for thing in things
        for hold_s in HOLD_S.get(thing, (0,))
    ]
    threads = [
        threading.Thread(target=Process(number, len(homes), *home).work, args=(seconds,), daemon=True)
        for number, home in enumerate(homes)
    ]
    for thread in threads:
        thread.start()
    for _ in NODES if "queue" in things else ():
        filling.acquire(timeout=FILLED_WITHIN_S)
    filled.set()
    while any(thread.is_alive() for thread in threads) and not asked_to_end.is_set():
        time.sleep(0.05)
    are_together = wait_until_together()
    over.set()
    for thread in threads:
        thread.join()
    look(are_together)


# ---- the end ----

def wait_until_together():
    """Whether every node knows all of them as its members, and did for a while."""
    until = time.monotonic() + TOGETHER_WITHIN_S
    since = None
    while time.monotonic() < until:
        if not all(members_of(address) == len(NODES) for address in NODES.values()):
            since = None
        elif since is None:
            since = time.monotonic()
        elif time.monotonic() - since > SETTLED_AFTER_S:
            return True
        time.sleep(0.3)
    return False


def members_of(address):
    """How many members a node knows."""
    return int(state_of(address)[1])


def state_of(address):
    """What a node is, and how many members it knows."""
    try:
        return ask(address, "probe", "members", "all", within=1).split()
    except (NotDone, Unknown):
        return "nothing", "0"


def come_together():
    """Whether they did, as a status."""
    is_together = wait_until_together()
    while is_together and not any(state_of(address)[0] in LEADS for address in NODES.values()):
        time.sleep(0.3)
    return 0 if is_together else 1


def check():
    """Whether they do, as a verdict."""
    if wait_until_together():
        print("ok")
        return
    states = [(name, *state_of(address)) for name, address in NODES.items()]
    print("broken: the nodes do not come together: " + ", ".join(f"{name} is {role} ({count})" for name, role, count in states))


def look(are_together):
    """One node after the other is asked for all that there is."""
    for number, address in enumerate(NODES.values()):
        process = Process(LAST + number, len(NODES), number, address, None, 0)
        for thing, key in sorted(used):
            if thing == "map" or thing == "kept" and are_together:
                process.operate("read", key, "get", read=int)
            elif thing == "counter":
                process.operate("read", key, "count", read=int)
            elif thing == "queue":
                while process.take(key) not in (None, "null"):
                    pass


def probe():
    """Answers each line on standard input with what the nodes are that answer, and `end`."""
    for _ in sys.stdin:
        for name, address in NODES.items():
            try:
                print(name, ask(address, "probe", "members", "all", within=1))
            except (NotDone, Unknown):
                pass
        print("end", flush=True)


def main():
    match sys.argv[1:]:
        case ["work", seconds, *things] if things:
            work(float(seconds), things)
        case ["probe"]:
            probe()
        case ["together"]:
            return come_together()
        case ["check"]:
            check()
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


sys.exit(main())
