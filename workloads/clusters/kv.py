#!/usr/bin/env python3
"""Clients and checks of key-value systems, in the language that their servers speak.

    kv.py SYSTEM prepare        waits until the system takes a write
    kv.py SYSTEM write COUNT    writes keys one after the other, and prints `set KEY VALUE` for each
                                that the system has acknowledged; no more of them than
                                CRASHPOINT_OPERATIONS says, if that is in its environment
    kv.py SYSTEM keep           keeps writing, to whoever leads, until it is asked to end (SIGTERM), and
                                prints a history: a JSON object for each call and each answer. After
                                a write that failed it asks again who leads; with `keep stay` it
                                stays with who led first
    kv.py SYSTEM mix NODE PEER  (etcd, nats) writes its own keys, and reads them and those of the client
                                PEER, until it is asked to end. It starts at this node, and moves to the next one
                                after two operations in a row that failed. It prints a history, and takes turns
                                if the cluster file says so
    kv.py SYSTEM probe          prints `NODE ROLE` for each node that answers, for each line on its
                                standard input, and `end`
    kv.py SYSTEM check ACKS     reads all keys from every node, and prints `ok`, or `broken …` for
                                each promise that is not kept
    kv.py SYSTEM serve          the same, for one line `DIR<TAB>ACKS` on standard input after the other

It needs nothing but Python, and psql for postgresql. Where the nodes are it takes from
CRASHPOINT_NODE_NAME in its environment. What is judged:
  an acknowledged write must be there: its value, or one that was written to the key later;
  a value must be one that somebody wrote;
  nodes that may all be read must come to hold the same.
A system that does not answer in time is not judged, which is `broken` only if it acknowledged
something: then it has lost that, for now at least.
"""

import base64
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time

# How many times as long as usual it waits.
PATIENCE = float(os.environ.get("CRASHPOINT_PATIENCE", "1"))
# How long the nodes have to answer, and to come to agree.
PATIENCE_S = float(os.environ.get("KV_PATIENCE_S", "20")) * PATIENCE
# How long nodes that answer may differ.
AGREE_WITHIN_S = float(os.environ.get("KV_AGREE_WITHIN_S", "10")) * PATIENCE
TRY_EVERY_S = 0.01
ANSWER_WITHIN_S = 5
PROBE_WITHIN_S = 0.5
# How long a client waits that may ask another node.
MIX_WITHIN_S = 1 * PATIENCE
# Each key is written more than once, unless there are more keys than writes.
KEYS = int(os.environ.get("KV_KEYS", "8"))
# Several clients write keys of their own.
CLIENT = os.environ.get("CRASHPOINT_CLIENT", "")
# Whether it reads a line before each operation, as it is one at a time of several clients that works.
TURNS = "CRASHPOINT_TURNS" in os.environ
# How long there is between two writes of a client that keeps writing.
PAUSE_S = 0.02


class Unavailable(Exception):
    """The system does not answer, or says that it cannot."""


def nodes():
    """The names and addresses of the nodes, in the order of the cluster file."""
    prefix = "CRASHPOINT_NODE_"
    found = [(name[len(prefix):].lower(), value) for name, value in os.environ.items() if name.startswith(prefix)]
    return sorted(found, key=lambda node: [int(part) for part in node[1].split(".")])


def connect(address, port, within_s=ANSWER_WITHIN_S):
    connection = socket.create_connection((address, port), within_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class Redis:
    """RESP. A write is acknowledged when the replicas that WAIT names have it too; with KV_REPLICAS=0
    as soon as the server has it."""

    PORT = 6379
    REPLICAS = int(os.environ.get("KV_REPLICAS", "2"))

    def __init__(self, address):
        self.stream = connect(address, self.PORT).makefile("rwb")

    def call(self, *words):
        words = [word.encode() if isinstance(word, str) else word for word in words]
        self.stream.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        self.stream.flush()
        return self.answer()

    def answer(self):
        line = self.stream.readline()
        if not line.endswith(b"\r\n"):
            raise Unavailable("the connection was closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise Unavailable(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if int(rest) < 0 else self.stream.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return [self.answer() for _ in range(int(rest))]
        return rest.decode()

    def put(self, key, value):
        self.call("SET", key, value)
        if self.REPLICAS and self.call("WAIT", str(self.REPLICAS), str(ANSWER_WITHIN_S * 1000)) < self.REPLICAS:
            raise Unavailable("not all replicas have it")

    def get_all(self, keys):
        return dict(zip(keys, self.call("MGET", *keys))) if keys else {}

    def ready(self):
        role = self.call("ROLE")
        if role[0] == "slave" and role[3] != "connected":
            raise Unavailable("the replica is not connected")

    def role(self):
        return {"master": "leader", "slave": "replica"}[self.call("ROLE")[0]]


class Sentinel(Redis):
    """The same, by way of the sentinels: they know who leads."""

    SENTINEL_PORT = 26379

    @staticmethod
    def nodes():
        return [(name, address) for name, address in nodes() if name.startswith("redis")]

    @classmethod
    def leader(cls):
        for name, address in nodes():
            if not name.startswith("sentinel"):
                continue
            sentinel = cls.__new__(cls)
            sentinel.stream = connect(address, cls.SENTINEL_PORT).makefile("rwb")
            answer = sentinel.call("SENTINEL", "get-master-addr-by-name", "main")
            if answer:
                return answer[0]
        raise Unavailable("no sentinel knows who leads")


class Etcd:
    """The JSON gateway of etcd's v3 API. Reads are linearizable, unless KV_SERIALIZABLE=1: then each
    node answers with what it has."""

    PORT = 2379
    SERIALIZABLE = os.environ.get("KV_SERIALIZABLE") == "1"

    def __init__(self, address, within_s=ANSWER_WITHIN_S):
        self.connection = http.client.HTTPConnection(address, self.PORT, timeout=within_s)

    def ask(self, path, body):
        self.connection.request("POST", path, json.dumps(body))
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise Unavailable(text.decode(errors="replace").strip())
        return json.loads(text)

    def call(self, what, **arguments):
        body = {key: base64.b64encode(value.encode()).decode() for key, value in arguments.items()}
        if what == "range":
            body["serializable"] = self.SERIALIZABLE
        return self.ask("/v3/kv/" + what, body)

    def put(self, key, value):
        self.call("put", key=key, value=value)

    def get(self, key):
        found = self.call("range", key=key).get("kvs", [])
        return self.text(found[0].get("value", "")) if found else None

    def get_all(self, keys):
        # From the lowest key on, without an end.
        found = self.call("range", key="\0", range_end="\0").get("kvs", [])
        found = {self.text(pair["key"]): self.text(pair.get("value", "")) for pair in found}
        return {key: found.get(key) for key in keys}

    @staticmethod
    def text(encoded):
        return base64.b64decode(encoded).decode()

    def ready(self):
        self.call("range", key="ready")

    @classmethod
    def to_probe(cls, address):
        return cls(address, PROBE_WITHIN_S)

    def role(self):
        status = self.ask("/v3/maintenance/status", {})
        leads = status.get("leader") == status.get("header", {}).get("member_id")
        return f"{'leader' if leads else 'follower'} {status.get('raftTerm', 0)}"


class ZooKeeper:
    """ZooKeeper's own protocol. A read comes after a sync, so that it is not of the past."""

    PORT = 2181
    CREATE, DELETE, EXISTS, GET, SET, SYNC = 1, 2, 3, 4, 5, 9
    NO_NODE, NODE_EXISTS = -101, -110
    OPEN_TO_ALL = struct.pack(">ii", 1, 31) + struct.pack(">i5si6s", 5, b"world", 6, b"anyone")

    def __init__(self, address):
        self.socket = connect(address, self.PORT)
        self.number = 0
        self.send(struct.pack(">iqiqi16s", 0, 0, 10_000, 0, 16, bytes(16)))
        self.receive()

    def send(self, message):
        self.socket.sendall(struct.pack(">i", len(message)) + message)

    def read(self, size):
        got = b""
        while len(got) < size:
            more = self.socket.recv(size - len(got))
            if not more:
                raise Unavailable("the connection was closed")
            got += more
        return got

    def receive(self):
        return self.read(struct.unpack(">i", self.read(4))[0])

    def call(self, kind, *fields):
        self.number += 1
        self.send(struct.pack(">ii", self.number, kind) + b"".join(fields))
        while True:
            answer = self.receive()
            number, _, error = struct.unpack(">iqi", answer[:16])
            if number == self.number:
                return error, answer[16:]

    @staticmethod
    def text(value):
        value = value.encode()
        return struct.pack(">i", len(value)) + value

    def put(self, key, value):
        path = self.text("/" + key)
        error, _ = self.call(self.SET, path, self.text(value), struct.pack(">i", -1))
        if error == self.NO_NODE:
            error, _ = self.call(self.CREATE, path, self.text(value), self.OPEN_TO_ALL, struct.pack(">i", 0))
        if error:
            raise Unavailable(f"error {error}")

    def get_all(self, keys):
        error, _ = self.call(self.SYNC, self.text("/"))
        if error:
            raise Unavailable(f"error {error}")
        return {key: self.get(key) for key in keys}

    def get(self, key):
        error, answer = self.call(self.GET, self.text("/" + key), b"\0")
        if error == self.NO_NODE:
            return None
        if error:
            raise Unavailable(f"error {error}")
        size = struct.unpack(">i", answer[:4])[0]
        return answer[4:4 + size].decode()

    def ready(self):
        self.get_all(["ready"])

    def role(self):
        self.stream.write(b"srvr")
        self.stream.flush()
        for line in self.stream.read().decode().splitlines():
            if line.startswith("Mode: "):
                return line.split()[1]
        raise Unavailable("it neither leads nor follows")

    @classmethod
    def leader(cls):
        addresses = dict(nodes())
        for line in probe(cls):
            name, role = line.split()
            if role == "leader":
                return addresses[name]
        raise Unavailable("nobody leads")


class Nats:
    """A stream of NATS that keeps the last message of each subject, with three replicas."""

    PORT = 4222
    STREAM = "KV"
    REPLICAS = 3

    def __init__(self, address, within_s=ANSWER_WITHIN_S):
        self.stream = connect(address, self.PORT, within_s).makefile("rwb")
        self.number = 0
        self.inbox = f"_INBOX.{os.getpid()}.{id(self)}"
        # It begins with INFO and an object.
        self.server = json.loads(self.stream.readline().partition(b" ")[2])["server_name"]
        self.say('CONNECT {"verbose":false,"pedantic":false}', f"SUB {self.inbox}.* 1")

    def say(self, *lines):
        self.stream.write("".join(line + "\r\n" for line in lines).encode())
        self.stream.flush()

    def call(self, subject, message):
        self.number += 1
        reply = f"{self.inbox}.{self.number}"
        self.say(f"PUB {subject} {reply} {len(message.encode())}", message)
        while True:
            words = self.stream.readline().decode().split()
            if not words or words[0] == "-ERR":
                raise Unavailable(" ".join(words) or "the connection was closed")
            if words[0] == "PING":
                self.say("PONG")
            elif words[0] in ("MSG", "HMSG"):
                body = self.stream.read(int(words[-1]) + 2)[:-2]
                if words[1] == reply:
                    if words[0] == "HMSG":
                        raise Unavailable(body.decode(errors="replace").split("\r\n")[0])
                    return json.loads(body)

    def api(self, what, **arguments):
        answer = self.call("$JS.API." + what, json.dumps(arguments) if arguments else "")
        error = answer.get("error")
        if error and error.get("err_code") not in (10037, 10058, 10059):
            raise Unavailable(error.get("description"))
        return answer

    def set_up(self):
        answer = self.api(
            "STREAM.CREATE." + self.STREAM, name=self.STREAM, subjects=["kv.*"], num_replicas=self.REPLICAS,
            max_msgs_per_subject=1, storage="file", retention="limits", discard="old")
        if "error" in answer and answer["error"]["err_code"] != 10058:
            raise Unavailable(answer["error"]["description"])

    def put(self, key, value):
        answer = self.call("kv." + key, value)
        if "seq" not in answer:
            raise Unavailable(str(answer))

    def get_all(self, keys):
        return {key: self.get(key) for key in keys}

    def get(self, key):
        answer = self.api("STREAM.MSG.GET." + self.STREAM, last_by_subj="kv." + key)
        if "error" in answer:
            if answer["error"]["err_code"] != 10037:
                raise Unavailable(answer["error"]["description"])
            return None
        return base64.b64decode(answer["message"]["data"]).decode()

    def ready(self):
        self.get("ready")

    @classmethod
    def to_probe(cls, address):
        return cls(address, PROBE_WITHIN_S)

    def role(self):
        leader = self.api("STREAM.INFO." + self.STREAM)["cluster"].get("leader")
        return "leader" if leader == self.server else "follower"


class Postgres:
    """psql. A write is acknowledged when the standby has it, too."""

    def __init__(self, address):
        self.words = ["psql", "-h", address, "-U", "postgres", "-qAtX", "-v", "ON_ERROR_STOP=1", "-c"]

    def call(self, text):
        environment = dict(os.environ, PGCONNECT_TIMEOUT=str(ANSWER_WITHIN_S))
        done = subprocess.run(self.words + [text], capture_output=True, text=True, env=environment, timeout=PATIENCE_S)
        if done.returncode:
            raise Unavailable(done.stderr.strip().replace("\n", " "))
        return done.stdout.strip()

    def set_up(self):
        self.call("create table if not exists kv (key text primary key, value text)")

    def put(self, key, value):
        self.call(f"insert into kv values ('{key}', '{value}') on conflict (key) do update set value = '{value}'")

    def get_all(self, keys):
        found = {}
        if self.call("select to_regclass('kv')"):
            found = dict(line.split("|") for line in self.call("select key, value from kv").splitlines())
        return {key: found.get(key) for key in keys}

    def ready(self):
        self.call("select 1")


SYSTEMS = {"redis": Redis, "redis-sentinel": Sentinel, "etcd": Etcd, "zookeeper": ZooKeeper, "nats": Nats, "postgresql": Postgres}
FAILURES = (Unavailable, OSError, http.client.HTTPException, subprocess.TimeoutExpired, struct.error, LookupError, ValueError)


def patiently(what, until):
    """Does it until it goes well. Returns the error of the last try when it is too late."""
    while True:
        try:
            return what()
        except FAILURES as error:
            if time.monotonic() > until:
                raise Unavailable(str(error) or type(error).__name__) from error
            time.sleep(TRY_EVERY_S)


def nodes_of(system):
    """The names and addresses of those that hold keys and values."""
    return system.nodes() if hasattr(system, "nodes") else nodes()


def begin(system):
    """Somebody who may write."""
    client = system(system.leader() if hasattr(system, "leader") else nodes()[0][1])
    if hasattr(client, "set_up"):
        client.set_up()
    return client


def write(system, count):
    """Writes in turn to a few keys. It stops at the first write that is not acknowledged."""
    until = time.monotonic() + PATIENCE_S
    client = patiently(lambda: begin(system), until)
    for _, address in nodes_of(system):
        patiently(lambda: system(address).ready(), until)
    most = int(os.environ.get("CRASHPOINT_OPERATIONS", count))
    for number in range(1, min(count, most) + 1):
        key, value = f"k{number % KEYS}", f"v{number}"
        print("try", key, value, flush=True)
        client.put(key, value)
        print("set", key, value, flush=True)


def keep(system, stays):
    """Writes until it is asked to end. What is not acknowledged may have been done, or not."""
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    most = int(os.environ.get("CRASHPOINT_OPERATIONS", sys.maxsize))
    leader = patiently(system.leader if hasattr(system, "leader") else lambda: nodes()[0][1], time.monotonic() + PATIENCE_S)
    client, number, process = None, 0, 0
    while not ended and number < most:
        time.sleep(PAUSE_S)
        try:
            client = client or system(leader)
            number += 1
            operation = {"process": process, "f": "write", "key": f"{CLIENT}k{number % KEYS}", "value": f"v{number}"}
            record("invoke", operation)
            try:
                client.put(operation["key"], operation["value"])
                record("ok", operation)
            except FAILURES as error:
                # Nobody knows what became of it: the next is of another process.
                record("info", operation, error=str(error))
                process += 1
                raise
        except FAILURES:
            client = None
            if not stays:
                try:
                    leader = system.leader() if hasattr(system, "leader") else leader
                except FAILURES:
                    pass


def record(kind, operation, **more):
    print(json.dumps({"type": kind} | operation | more), flush=True)


def is_to_go_on(ended):
    """Waits until it is time for the next operation, if there is to be one."""
    if TURNS:
        is_turn = sys.stdin.readline() != ""
        return is_turn and not ended
    time.sleep(PAUSE_S)
    return not ended


def mix(system, node, peer):
    """Writes and reads by turns until it is asked to end."""
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    most = int(os.environ.get("CRASHPOINT_OPERATIONS", sys.maxsize))
    all_nodes = nodes_of(system)
    at = [name for name, _ in all_nodes].index(node)
    client, number, process, failed = None, 0, 0, 0
    while number < most and is_to_go_on(ended):
        number += 1
        key = number // 4 % KEYS
        if number % 2:
            operation = {"process": process, "f": "write", "key": f"{CLIENT}k{key}", "value": f"v{number}"}
        else:
            operation = {"process": process, "f": "read", "key": f"{[CLIENT, peer][number // 2 % 2]}k{key}"}
        record("invoke", operation)
        try:
            client = client or system(all_nodes[at % len(all_nodes)][1], MIX_WITHIN_S)
            if operation["f"] == "write":
                client.put(operation["key"], operation["value"])
                record("ok", operation)
            else:
                record("ok", operation, value=client.get(operation["key"]))
            failed = 0
        except FAILURES as error:
            # Nobody knows what became of it: the next is of another process.
            record("info", operation, error=str(error))
            process += 1
            client = None
            failed += 1
            # A node that cannot write may still answer reads.
            at += failed % 2 == 0


def to_probe(system, address):
    """Somebody who is asked for its role, and has to answer soon."""
    if hasattr(system, "to_probe"):
        return system.to_probe(address)
    client = system.__new__(system)
    client.stream = connect(address, system.PORT, PROBE_WITHIN_S).makefile("rwb")
    return client


def probe(system):
    """The role of each node that answers soon."""
    said = []
    for name, address in nodes_of(system):
        try:
            said.append(f"{name} {to_probe(system, address).role()}")
        except FAILURES:
            pass
    return said


def words_of(line):
    """A line of an acknowledgement as `try KEY VALUE` or `set KEY VALUE`, also if it is one of a history."""
    if not line.startswith("{"):
        return line.split()
    operation = json.loads(line)
    if operation["f"] != "write":
        return []
    kind = {"invoke": "try", "ok": "set"}.get(operation["type"], operation["type"])
    return [kind, operation["key"], operation["value"]]


def expected(path):
    """The values that each key may have, the last one that must be there first; and what was tried."""
    allowed, must = {}, {}
    # Tries of which nobody knows what became: they may be done at any time, also much later.
    open_ = {}
    with open(path, encoding="utf-8", errors="replace") as lines:
        for words in map(words_of, lines):
            if len(words) != 3 or words[0] not in ("try", "set"):
                continue
            kind, key, value = words
            tries = open_.setdefault(key, [])
            if kind == "try":
                tries.append(value)
                allowed.setdefault(key, []).append(value)
            else:
                if value in tries:
                    tries.remove(value)
                must[key] = value
                allowed[key] = [value] + tries
    return allowed, must


def check(system, path):
    """The verdict lines."""
    allowed, must = expected(path)
    try:
        broken = patiently(lambda: look(system, allowed, must), time.monotonic() + PATIENCE_S)
        until = time.monotonic() + AGREE_WITHIN_S
        while any(may_change for may_change, _ in broken) and time.monotonic() < until:
            time.sleep(TRY_EVERY_S)
            broken = patiently(lambda: look(system, allowed, must), until)
    except Unavailable as error:
        if must:
            return [f"broken the cluster does not come up within {PATIENCE_S:g} s: {error}"]
        return [f"the cluster does not come up within {PATIENCE_S:g} s, and nothing was acknowledged: {error}"]
    return [f"broken {words}" for _, words in broken] or ["ok"]


def look(system, allowed, must):
    """What is not as it must be now: whether that may change by itself, and words."""
    values = {}
    for name, address in nodes_of(system):
        client = system(address)
        client.ready()
        values[name] = client.get_all(sorted(allowed))
    broken = []
    for key in sorted(allowed):
        held = {name: found[key] for name, found in values.items()}
        differ = len(set(held.values())) > 1
        if differ:
            broken.append((True, f"{key}: the nodes disagree: " + ", ".join(f"{name} {value}" for name, value in held.items())))
        for name, value in held.items():
            if value is None and key in must:
                broken.append((differ, f"{key}: {name} has lost it; {must[key]} was acknowledged"))
            elif value is not None and value not in allowed[key]:
                broken.append((differ, f"{key}: {name} has {value}; " + (f"{must[key]} was acknowledged" if key in must else "nobody wrote that")))
    return broken


def main():
    system, what = SYSTEMS[sys.argv[1]], sys.argv[2]
    if what == "prepare":
        patiently(lambda: begin(system).put("prepared", "yes"), time.monotonic() + PATIENCE_S)
    elif what == "write":
        try:
            write(system, int(sys.argv[3]))
        except FAILURES as error:
            sys.exit(f"a write was not acknowledged: {error}")
    elif what == "keep":
        keep(system, "stay" in sys.argv[3:])
    elif what == "mix" and system in (Etcd, Nats):
        mix(system, *sys.argv[3:5])
    elif what == "probe":
        for _ in sys.stdin:
            print("\n".join(probe(system) + ["end"]), flush=True)
    elif what == "check":
        print("\n".join(check(system, sys.argv[3])))
    elif what == "serve":
        for line in sys.stdin:
            print("\n".join(check(system, line.rstrip("\n").split("\t")[1])))
            print("end", flush=True)
    else:
        sys.exit(__doc__)


main()
