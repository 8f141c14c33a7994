#!/usr/bin/env python3
"""Stores for Python, each as a program: it makes the transactions of ../README.md and says which are
committed, and checks what a crash left of them.

    stores.py STORE run DIR
    stores.py STORE check DIR ACKS
    stores.py STORE check --serve
"""

import os
import signal
import sys
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))

import serving

TRANSACTIONS = 8


def value(key, number, length):
    words, text = 0, ""
    while len(text) < length:
        text += f"{key}/{number}:{words} "
        words += 1
    return text[:length]


def transaction(number):
    """What commit `number` does, from 1 on: keys and values, None for one that is deleted."""
    changes = {"counter": str(number)}
    for key, length in (f"small{number % 3}", 400), (f"big{number % 2}", 8192), (f"new{number}", 400):
        changes[key] = value(key, number, length)
    if number > 3:
        changes[f"new{number - 3}"] = None
    return changes


def after(number):
    """The store after commit `number`; it is empty after 0."""
    state = {}
    for n in range(1, number + 1):
        state.update(transaction(n))
    return {key: value for key, value in state.items() if value is not None}


class Zodb:
    """FileStorage, which syncs each commit."""

    def __init__(self, directory):
        import ZODB
        import ZODB.FileStorage

        self.db = ZODB.DB(ZODB.FileStorage.FileStorage(f"{directory}/Data.fs"))
        self.connection = self.db.open()

    def commit(self, changes):
        root = self.connection.root()
        for key, value in changes.items():
            if value is None:
                del root[key]
            else:
                root[key] = value
        self.connection.transaction_manager.commit()

    def tidy(self):
        self.db.pack()

    def contents(self):
        return dict(self.connection.root())

    def close(self):
        self.connection.close()
        self.db.close()


class Plyvel:
    """LevelDB, each batch with sync."""

    def __init__(self, directory):
        import plyvel

        self.db = plyvel.DB(f"{directory}/db", create_if_missing=True)

    def commit(self, changes):
        with self.db.write_batch(sync=True) as batch:
            for key, value in changes.items():
                if value is None:
                    batch.delete(key.encode())
                else:
                    batch.put(key.encode(), value.encode())

    def tidy(self):
        self.db.compact_range()

    def contents(self):
        return {key.decode(): value.decode() for key, value in self.db}

    def close(self):
        self.db.close()


class DiskCache:
    """A cache of which nothing is evicted, with SQLite's synchronous=FULL. Large values are files."""

    def __init__(self, directory):
        import diskcache

        self.cache = diskcache.Cache(
            f"{directory}/cache", sqlite_synchronous=2, disk_min_file_size=4096, eviction_policy="none"
        )

    def commit(self, changes):
        with self.cache.transact():
            for key, value in changes.items():
                if value is None:
                    self.cache.delete(key)
                else:
                    self.cache.set(key, value)

    def tidy(self):
        pass

    def contents(self):
        return {key: self.cache[key] for key in self.cache}

    def close(self):
        self.cache.close()


class Unqlite:
    """UnQLite, whose commits sync."""

    def __init__(self, directory):
        import unqlite

        self.db = unqlite.UnQLite(f"{directory}/db")

    def commit(self, changes):
        self.db.begin()
        for key, value in changes.items():
            if value is None:
                del self.db[key]
            else:
                self.db[key] = value
        self.db.commit()

    def tidy(self):
        pass

    def contents(self):
        return {str(key): value.decode() for key, value in self.db.items()}

    def close(self):
        self.db.close()


STORES = {"diskcache": DiskCache, "plyvel": Plyvel, "unqlite": Unqlite, "zodb": Zodb}


def run(opens, directory):
    store = opens(directory)
    most = int(os.environ.get("CRASHPOINT_OPERATIONS", TRANSACTIONS))
    for number in range(1, min(TRANSACTIONS, most) + 1):
        store.commit(transaction(number))
        # One call, so that the line is there or is not.
        os.write(1, f"committed {number}\n".encode())
        if number == TRANSACTIONS // 2:
            store.tidy()
    store.close()


def verdict(opens):
    """A check of what a crash left."""

    def wrong(directory, lines):
        acknowledged = sum(line.startswith("committed ") for line in lines)
        try:
            store = opens(directory)
            contents = store.contents()
            store.close()
        except Exception as error:
            when = "" if acknowledged else "nothing was acknowledged, and "
            words = " ".join(str(error).replace(directory, "{dir}").split())
            return f"{when}the store cannot be read: {type(error).__name__}: {words}"
        return differs(contents, acknowledged)

    def of_a_child(directory, lines):
        """Nothing of one state is in the memory of the next."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(write, (wrong(directory, lines) or "").encode())
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as answer:
            words = answer.read()
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            # Crashpoint takes it for a verdict, and starts the check again.
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
            os.kill(os.getpid(), os.WTERMSIG(status))
        if status != 0:
            raise RuntimeError(f"looking ended with wait status {status}")
        return words or None

    return of_a_child


def differs(contents, acknowledged):
    """How the contents differ from those after the last acknowledged commit, and after the next one,
    which was under way."""
    if contents in (after(acknowledged), after(acknowledged + 1)):
        return None
    for number in range(TRANSACTIONS + 1):
        if contents == after(number):
            if number < acknowledged:
                return f"acknowledged commit {number + 1} is lost"
            return f"commit {number} is there, and was never begun"
    return "the contents are those of no commit"


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in STORES or sys.argv[2] not in ("run", "check"):
        print(f"usage: stores.py {'|'.join(STORES)} run DIR, or check DIR ACKS, or check --serve", file=sys.stderr)
        sys.exit(2)
    opens = STORES[sys.argv[1]]
    if sys.argv[2] == "run":
        run(opens, sys.argv[3])
    else:
        del sys.argv[1:3]
        serving.main(verdict(opens))


if __name__ == "__main__":
    main()
