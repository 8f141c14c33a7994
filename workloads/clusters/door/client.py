#!/usr/bin/env python3
"""Client, check and probe of the systems behind a door (Door.java).

    client.py work SECONDS THING...   works on all nodes, and prints a history: a JSON object a line
    client.py check HISTORY           judges it, and asks every node for every key
    client.py probe                   answers each line on its input with lines NODE coordinator|member
                                      MEMBERS, and `end`

THING is map, lock, semaphore, counter or queue. Two processes are bound to each node; they work at the
same time. CRASHPOINT_NODE_<NAME> says where a node is."""
import json
import os
import random
import sys
import threading
import time
import urllib.error
import urllib.request

PORT = 8080
PROCESSES_OF_A_NODE = 2
PAUSE_S = 0.3
HOLD_S = 0.3
# Some of the systems wait for so long before they give up.
WITHIN_S = 9
# Objects are replaced by others after so long: one whose holder is unknown is never free again.
FRESH_EVERY_S = 20

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
        raise Unknown(error.read().decode()[:200]) from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            raise NotDone("connection refused") from error
        raise Unknown(str(error.reason)) from error
    except OSError as error:
        raise Unknown(str(error)) from error


# ---- the work ----

printing = threading.Lock()
values = iter(range(1, 1 << 60))
began = time.monotonic()


def say(**event):
    with printing:
        print(json.dumps(event), flush=True)


class Process:
    """Does one operation after the other on one node."""

    def __init__(self, number, address, things):
        self.number = number
        self.step = len(NODES) * PROCESSES_OF_A_NODE
        self.address = address
        self.things = things
        self.random = random.Random(number)

    def work(self, seconds):
        while time.monotonic() - began < seconds:
            thing = self.random.choice(self.things)
            getattr(self, thing)(f"{thing}-{int((time.monotonic() - began) / FRESH_EVERY_S)}")
            time.sleep(PAUSE_S)

    def operate(self, f, key, operation, value=None, given=(), read=str):
        """One operation, with its beginning and its end. The result if it was done, or None."""
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

    def map(self, key):
        if self.random.random() < 0.5:
            self.operate("read", key, "get", read=int)
        else:
            with printing:
                value = next(values)
            self.operate("write", key, "put", value, [value], read=None)

    def hold(self, key, take, give):
        if self.operate("acquire", key, take, read=None) is not None:
            time.sleep(HOLD_S)
            self.operate("release", key, give, read=None)

    def lock(self, key):
        self.hold(key, "lock", "unlock")

    def semaphore(self, key):
        self.hold(key, "permit", "return")

    def counter(self, key):
        if self.random.random() < 0.3:
            self.operate("read", key, "count", read=int)
        else:
            self.operate("inc", key, "inc", read=int)

    def queue(self, key):
        if self.random.random() < 0.6:
            with printing:
                value = next(values)
            self.operate("enqueue", key, "offer", value, [value], read=None)
        else:
            self.operate("dequeue", key, "poll", read=int)


def work(seconds, things):
    homes = [address for address in NODES.values() for _ in range(PROCESSES_OF_A_NODE)]
    threads = [
        threading.Thread(target=Process(number, address, things).work, args=(seconds,))
        for number, address in enumerate(homes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# ---- the check ----

NEVER = float("inf")


def operations(lines):
    """The operations of a history: each with where it began and ended, and with its outcome."""
    done, still_open = [], {}
    for place, line in enumerate(lines):
        event = json.loads(line)
        if event["type"] == "invoke":
            operation = dict(event, begin=place, end=NEVER, outcome="info", argument=event["value"])
            done.append(operation)
            still_open[event["process"]] = operation
            continue
        operation = still_open.pop(event["process"])
        operation["outcome"] = event["type"]
        operation["value"] = event["value"]
        if event["type"] != "info":
            operation["end"] = place
    return done


def judge(done):
    """The first thing that is wrong, for each object."""
    objects = {}
    for operation in done:
        objects.setdefault(operation["key"], []).append(operation)
    judges = {"map": judge_map, "lock": judge_lock, "semaphore": judge_lock,
              "counter": judge_counter, "queue": judge_queue}
    for key, of in sorted(objects.items()):
        wrong = judges[key.split("-")[0]](key, of)
        if wrong:
            yield wrong


def were_done(of, *fs):
    return [op for op in of if op["f"] in fs and op["outcome"] == "ok"]


def judge_map(key, of):
    """A value that was read must not have been overwritten before the read began. No value is written
    twice."""
    may_be = {op["argument"]: op for op in of if op["f"] == "write" and op["outcome"] != "fail"}
    for read in were_done(of, "read"):
        value = read["value"]
        if value is not None and value not in may_be:
            return f"a read of {key} finds {value}, a value that was never written"
        end = -1 if value is None else may_be[value]["end"]
        for write in were_done(of, "write"):
            if end < write["begin"] and write["end"] < read["begin"]:
                found = "nothing" if value is None else f"the older {value}"
                return f"acknowledged write {write['argument']} of {key} is not seen: a later read finds {found}"
    return None


def judge_lock(key, of):
    """Who has it holds it until it begins to give it back."""
    held = []
    for got in were_done(of, "acquire"):
        given = [op["begin"] for op in of
                 if op["f"] == "release" and op["process"] == got["process"] and op["begin"] > got["end"]]
        start, end = got["end"], min(given, default=NEVER)
        for other_start, other_end, other in held:
            if start < other_end and other_start < end:
                return f"{key} is held twice, by {other} and by {got['process']}"
        held.append((start, end, got["process"]))
    return None


def judge_counter(key, of):
    """No two increments come to the same, and nobody sees less than somebody saw before."""
    seen = {}
    for op in were_done(of, "inc"):
        if op["value"] in seen:
            return f"{key} came to {op['value']} twice"
        seen[op["value"]] = op
    looks = were_done(of, "inc", "read")
    for look in looks:
        before = [op["value"] for op in looks if op["end"] < look["begin"]]
        if before and max(before) > look["value"]:
            return f"{key} goes back from {max(before)} to {look['value']}"
    return None


def judge_queue(key, of):
    """An element is dequeued once, and was enqueued."""
    seen = set()
    may_be = {op["argument"] for op in of if op["f"] == "enqueue" and op["outcome"] != "fail"}
    for op in were_done(of, "dequeue"):
        if op["value"] is None:
            continue
        if op["value"] in seen:
            return f"{op['value']} is dequeued twice from {key}"
        if op["value"] not in may_be:
            return f"{op['value']} is dequeued from {key}, and was never enqueued"
        seen.add(op["value"])
    return None


def check(path):
    """Judges a history, with reads of every node at its end."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    wrong = list(judge(operations(lines)))
    if not wrong:
        keys = sorted({event["key"] for event in map(json.loads, lines) if event["f"] == "read"})
        reader = 1 + max((json.loads(line)["process"] for line in lines), default=0)
        for name, address in NODES.items():
            for key in keys:
                value = read_in_the_end(address, key)
                if value is Unknown:
                    print(f"broken node {name} does not serve")
                    return 1
                event = {"process": reader, "f": "read", "key": key}
                lines.append(json.dumps({"type": "invoke", "value": None, **event}))
                lines.append(json.dumps({"type": "ok", "value": value, **event}))
            wrong = [f"{words} (asked of {name})" for words in judge(operations(lines))]
            if wrong:
                break
    # One line: what else there is has the same cause, as far as anybody knows.
    print(f"broken {wrong[0]}" if wrong else "ok")
    for words in wrong[1:]:
        print(f"also {words}", file=sys.stderr)
    return 1 if wrong else 0


def read_in_the_end(address, key):
    """What a node has, or Unknown if it does not say so in time."""
    operation = "get" if key.startswith("map") else "count"
    until = time.monotonic() + WITHIN_S * int(os.environ.get("CRASHPOINT_PATIENCE", "1"))
    while time.monotonic() < until:
        try:
            answer = ask(address, "check", operation, key)
            return None if answer == "null" else int(answer)
        except (NotDone, Unknown):
            time.sleep(0.2)
    return Unknown


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
        case ["check", path]:
            return check(path)
        case ["probe"]:
            probe()
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


sys.exit(main())
