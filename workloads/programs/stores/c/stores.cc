// Stores for C and C++, each as a program: it makes the transactions of ../README.md and says which are
// committed, and checks what a crash left of them.
//
//     stores STORE run DIR
//     stores STORE check DIR ACKS
//
// Exit status: 0 all is well, 1 the check found something, 2 it could not run. A store that is ended by a
// signal when it reads ends the check too: Crashpoint takes that for a verdict.

#include <db.h>
#include <gdbm.h>
#include <kchashdb.h>
#include <tcbdb.h>
#include <unistd.h>
#include <wiredtiger.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using std::string;
using std::to_string;
using Contents = std::map<string, string>;

constexpr int TRANSACTIONS = 8;

struct Change {
    string key, value;
    bool deletes = false;
};

using Changes = std::vector<Change>;

string value(const string& key, int number, size_t length) {
    string text;
    for (int word = 0; text.size() < length; word++)
        text += key + "/" + to_string(number) + ":" + to_string(word) + " ";
    return text.substr(0, length);
}

// What commit `number` does, from 1 on.
Changes transaction(int number) {
    auto set = [number](const string& key, size_t length) { return Change{key, value(key, number, length)}; };
    Changes changes = {{"counter", to_string(number)},
                       set("small" + to_string(number % 3), 400),
                       set("big" + to_string(number % 2), 8192),
                       set("new" + to_string(number), 400)};
    if (number > 3) changes.push_back({"new" + to_string(number - 3), "", true});
    return changes;
}

// The store after commit `number`; it is empty after 0.
Contents after(int number) {
    Contents state;
    for (int n = 1; n <= number; n++) {
        for (const Change& change : transaction(n)) {
            if (change.deletes)
                state.erase(change.key);
            else
                state[change.key] = change.value;
        }
    }
    return state;
}

struct Failed : std::runtime_error {
    using runtime_error::runtime_error;
};

void expect(bool is_well, const string& what, const string& error) {
    if (!is_well) throw Failed(what + ": " + error);
}

// A store is opened, or made, by its constructor.
struct Store {
    virtual ~Store() = default;
    // Makes the changes durable, all or none.
    virtual void commit(const Changes& changes, int number) = 0;
    // What the store does in the background at times, now.
    virtual void tidy() {}
    virtual Contents contents() = 0;
    virtual void close() = 0;
};

// Berkeley DB: a transactional environment, each commit with DB_TXN_SYNC.
struct Berkeley : Store {
    DB_ENV* environment = nullptr;
    DB* table = nullptr;

    static void well(int status, const string& what) { expect(status == 0, what, db_strerror(status)); }

    static DBT of(const string& bytes) {
        DBT datum = {};
        datum.data = const_cast<char*>(bytes.data());
        datum.size = bytes.size();
        return datum;
    }

    explicit Berkeley(const string& directory) {
        well(db_env_create(&environment, 0), "db_env_create");
        environment->set_errfile(environment, nullptr);
        // Small logs, so that there are several.
        environment->set_lg_bsize(environment, 16 << 10);
        environment->set_lg_max(environment, 64 << 10);
        const int flags =
            DB_CREATE | DB_INIT_TXN | DB_INIT_LOG | DB_INIT_LOCK | DB_INIT_MPOOL | DB_RECOVER | DB_PRIVATE;
        well(environment->open(environment, directory.c_str(), flags, 0), "open the environment");
        well(db_create(&table, environment, 0), "db_create");
        const int how = DB_CREATE | DB_AUTO_COMMIT;
        well(table->open(table, nullptr, "data.db", nullptr, DB_BTREE, how, 0600), "open the table");
    }

    void commit(const Changes& changes, int) override {
        DB_TXN* transaction;
        well(environment->txn_begin(environment, nullptr, &transaction, 0), "begin");
        for (const Change& change : changes) {
            DBT key = of(change.key), value = of(change.value);
            if (change.deletes)
                well(table->del(table, transaction, &key, 0), "delete");
            else
                well(table->put(table, transaction, &key, &value, 0), "put");
        }
        well(transaction->commit(transaction, DB_TXN_SYNC), "commit");
    }

    void tidy() override { well(environment->txn_checkpoint(environment, 0, 0, DB_FORCE), "checkpoint"); }

    Contents contents() override {
        Contents all;
        DBC* cursor;
        well(table->cursor(table, nullptr, &cursor, 0), "cursor");
        DBT key = {}, value = {};
        int status;
        while ((status = cursor->get(cursor, &key, &value, DB_NEXT)) == 0)
            all[string(static_cast<char*>(key.data), key.size)] = string(static_cast<char*>(value.data), value.size);
        expect(status == DB_NOTFOUND, "read", db_strerror(status));
        cursor->close(cursor);
        return all;
    }

    void close() override {
        table->close(table, 0);
        environment->close(environment, 0);
    }
};

// GDBM with GDBM_SYNC. It has no transactions of several keys: one value holds all.
struct Gdbm : Store {
    GDBM_FILE file;
    const datum key = {const_cast<char*>("all"), 3};

    explicit Gdbm(const string& directory) {
        file = gdbm_open((directory + "/db").c_str(), 0, GDBM_WRCREAT | GDBM_SYNC, 0600, nullptr);
        expect(file, "open", gdbm_strerror(gdbm_errno));
    }

    void commit(const Changes&, int number) override {
        string all;
        for (const auto& [key, value] : after(number)) all += key + "=" + value + "\n";
        const datum value = {all.data(), static_cast<int>(all.size())};
        expect(gdbm_store(file, key, value, GDBM_REPLACE) == 0, "store", gdbm_strerror(gdbm_errno));
    }

    void tidy() override { expect(gdbm_reorganize(file) == 0, "reorganize", gdbm_strerror(gdbm_errno)); }

    Contents contents() override {
        Contents all;
        const datum value = gdbm_fetch(file, key);
        if (!value.dptr) {
            expect(gdbm_errno == GDBM_ITEM_NOT_FOUND, "fetch", gdbm_strerror(gdbm_errno));
            return all;
        }
        const string text(value.dptr, value.dsize);
        free(value.dptr);
        for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
            end = std::min(text.find('\n', begin), text.size());
            const string pair = text.substr(begin, end - begin);
            all[pair.substr(0, pair.find('='))] = pair.substr(pair.find('=') + 1);
        }
        return all;
    }

    void close() override { gdbm_close(file); }
};

// Kyoto Cabinet: a hash file, each transaction with hard synchronisation.
struct Kyoto : Store {
    kyotocabinet::HashDB db;

    void well(bool is_well, const string& what) { expect(is_well, what, db.error().message()); }

    explicit Kyoto(const string& directory) {
        well(db.open(directory + "/db.kch", db.OWRITER | db.OCREATE), "open");
    }

    void commit(const Changes& changes, int) override {
        well(db.begin_transaction(true), "begin");
        for (const Change& change : changes) {
            if (change.deletes)
                well(db.remove(change.key), "remove");
            else
                well(db.set(change.key, change.value), "set");
        }
        well(db.end_transaction(true), "commit");
    }

    void tidy() override { well(db.synchronize(true), "synchronize"); }

    Contents contents() override {
        Contents all;
        std::unique_ptr<kyotocabinet::HashDB::Cursor> cursor(db.cursor());
        string key, value;
        if (cursor->jump())
            while (cursor->get(&key, &value, true)) all[key] = value;
        well(db.error().code() == kyotocabinet::HashDB::Error::NOREC || db.error().code() == 0, "read");
        return all;
    }

    void close() override { db.close(); }
};

// Tokyo Cabinet: a B+ tree with BDBOTSYNC, which syncs each transaction.
struct Tokyo : Store {
    TCBDB* db = tcbdbnew();

    void well(bool is_well, const string& what) { expect(is_well, what, tcbdberrmsg(tcbdbecode(db))); }

    explicit Tokyo(const string& directory) {
        well(tcbdbopen(db, (directory + "/db.tcb").c_str(), BDBOWRITER | BDBOCREAT | BDBOTSYNC), "open");
    }

    void commit(const Changes& changes, int) override {
        well(tcbdbtranbegin(db), "begin");
        for (const Change& change : changes) {
            if (change.deletes)
                well(tcbdbout2(db, change.key.c_str()), "out");
            else
                well(tcbdbput2(db, change.key.c_str(), change.value.c_str()), "put");
        }
        well(tcbdbtrancommit(db), "commit");
    }

    void tidy() override { well(tcbdbsync(db), "sync"); }

    Contents contents() override {
        Contents all;
        BDBCUR* cursor = tcbdbcurnew(db);
        for (bool is_there = tcbdbcurfirst(cursor); is_there; is_there = tcbdbcurnext(cursor)) {
            char *key = tcbdbcurkey2(cursor), *value = tcbdbcurval2(cursor);
            well(key && value, "read");
            all[key] = value;
            free(key);
            free(value);
        }
        tcbdbcurdel(cursor);
        well(tcbdbecode(db) == TCENOREC || tcbdbecode(db) == TCESUCCESS, "read");
        return all;
    }

    void close() override { tcbdbdel(db); }
};

// WiredTiger with a log that each commit syncs.
struct Wired : Store {
    static int quiet_error(WT_EVENT_HANDLER*, WT_SESSION*, int, const char*) { return 0; }
    static int quiet_message(WT_EVENT_HANDLER*, WT_SESSION*, const char*) { return 0; }

    WT_EVENT_HANDLER quiet = {quiet_error, quiet_message, nullptr, nullptr};
    WT_CONNECTION* connection = nullptr;
    WT_SESSION* session = nullptr;
    WT_CURSOR* cursor = nullptr;

    static void well(int status, const string& what) { expect(status == 0, what, wiredtiger_strerror(status)); }

    explicit Wired(const string& directory) {
        // A small log: a file of it is allocated before.
        const char* config =
            "create,cache_size=20MB,log=(enabled=true,file_max=100KB),"
            "transaction_sync=(enabled=true,method=fsync)";
        well(wiredtiger_open(directory.c_str(), &quiet, config, &connection), "open");
        well(connection->open_session(connection, nullptr, nullptr, &session), "open_session");
        well(session->create(session, "table:pairs", "key_format=S,value_format=S"), "create");
        well(session->open_cursor(session, "table:pairs", nullptr, nullptr, &cursor), "open_cursor");
    }

    void commit(const Changes& changes, int) override {
        well(session->begin_transaction(session, nullptr), "begin");
        for (const Change& change : changes) {
            cursor->set_key(cursor, change.key.c_str());
            cursor->set_value(cursor, change.value.c_str());
            well(change.deletes ? cursor->remove(cursor) : cursor->insert(cursor), "change");
        }
        well(session->commit_transaction(session, nullptr), "commit");
    }

    void tidy() override { well(session->checkpoint(session, nullptr), "checkpoint"); }

    Contents contents() override {
        Contents all;
        int status;
        while ((status = cursor->next(cursor)) == 0) {
            const char *key, *value;
            cursor->get_key(cursor, &key);
            cursor->get_value(cursor, &value);
            all[key] = value;
        }
        expect(status == WT_NOTFOUND, "read", wiredtiger_strerror(status));
        return all;
    }

    void close() override { connection->close(connection, nullptr); }
};

using Open = std::function<std::unique_ptr<Store>(const string&)>;

template <class S>
std::unique_ptr<Store> open(const string& directory) {
    return std::make_unique<S>(directory);
}

const std::map<string, Open> STORES = {{"berkeley-db", open<Berkeley>},
                                       {"gdbm", open<Gdbm>},
                                       {"kyoto-cabinet", open<Kyoto>},
                                       {"tokyo-cabinet", open<Tokyo>},
                                       {"wiredtiger", open<Wired>}};

// One call, so that the line is there or is not.
void say(const string& line) {
    if (write(STDOUT_FILENO, (line + "\n").data(), line.size() + 1) < 0) throw std::runtime_error("write");
}

void run(const Open& open, const string& directory) {
    const auto store = open(directory);
    const char* most = std::getenv("CRASHPOINT_OPERATIONS");
    const int transactions = most ? std::min(std::stoi(most), TRANSACTIONS) : TRANSACTIONS;
    for (int number = 1; number <= transactions; number++) {
        store->commit(transaction(number), number);
        say("committed " + to_string(number));
        if (number == TRANSACTIONS / 2) store->tidy();
    }
    store->close();
}

// How the contents differ from those after the last acknowledged commit, and after the next one, which
// was under way.
string differs(const Contents& contents, int acknowledged) {
    if (contents == after(acknowledged) || contents == after(acknowledged + 1)) return "";
    for (int number = 0; number <= TRANSACTIONS; number++) {
        if (contents != after(number)) continue;
        if (number < acknowledged) return "acknowledged commit " + to_string(number + 1) + " is lost";
        return "commit " + to_string(number) + " is there, and was never begun";
    }
    return "the contents are those of no commit";
}

bool look(const Open& open, const string& directory, const string& acks) {
    std::ifstream lines(acks);
    if (!lines) throw std::runtime_error("cannot read " + acks);
    int acknowledged = 0;
    for (string line; std::getline(lines, line);) acknowledged += line.rfind("committed ", 0) == 0;
    Contents contents;
    string wrong;
    try {
        const auto store = open(directory);
        contents = store->contents();
        store->close();
    } catch (const std::exception& error) {
        wrong = string(acknowledged ? "" : "nothing was acknowledged, and ") + "the store cannot be read: " + error.what();
    }
    if (wrong.empty()) wrong = differs(contents, acknowledged);
    say(wrong.empty() ? "ok" : "broken " + wrong);
    return wrong.empty();
}

}  // namespace

int main(int count, char** words) {
    const std::vector<string> given(words + 1, words + count);
    const auto store = given.empty() ? STORES.end() : STORES.find(given[0]);
    try {
        if (store != STORES.end() && given.size() == 3 && given[1] == "run") {
            run(store->second, given[2]);
            return 0;
        }
        if (store != STORES.end() && given.size() == 4 && given[1] == "check")
            return look(store->second, given[2], given[3]) ? 0 : 1;
    } catch (const std::exception& error) {
        std::cerr << "error: " << error.what() << "\n";
        return 2;
    }
    std::cerr << "usage: stores berkeley-db|gdbm|kyoto-cabinet|tokyo-cabinet|wiredtiger run DIR, or check DIR ACKS\n";
    return 2;
}
