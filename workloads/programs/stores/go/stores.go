package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"

	pebble "github.com/cockroachdb/pebble/v2"
	badger "github.com/dgraph-io/badger/v4"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
	"github.com/tidwall/buntdb"
	"github.com/tidwall/wal"
	bolt "go.etcd.io/bbolt"
	_ "modernc.org/sqlite"
)

// Each with the most durable setting that it documents.
var stores = map[string]func(string) (store, error){
	"badger":        openBadger,
	"bbolt":         openBolt,
	"buntdb":        openBunt,
	"goleveldb":     openLevel,
	"pebble":        openPebble,
	"sqlite-delete": func(directory string) (store, error) { return openSQLite(directory, "delete", "extra") },
	"sqlite-wal":    func(directory string) (store, error) { return openSQLite(directory, "wal", "full") },
	"wal":           openWal,
}

// bbolt syncs each transaction, unless NoSync is set.
type boltStore struct{ *bolt.DB }

var bucket = []byte("bucket")

func openBolt(directory string) (store, error) {
	db, err := bolt.Open(filepath.Join(directory, "db"), 0o600, nil)
	return boltStore{db}, err
}

func (s boltStore) commit(_ int, changes []change) error {
	return s.Update(func(tx *bolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists(bucket)
		for _, change := range changes {
			if err != nil {
				return err
			}
			if change.deletes {
				err = bucket.Delete([]byte(change.key))
			} else {
				err = bucket.Put([]byte(change.key), []byte(change.value))
			}
		}
		return err
	})
}

func (s boltStore) tidy() error { return nil }

func (s boltStore) contents() (map[string]string, error) {
	contents := map[string]string{}
	err := s.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		bucket := tx.Bucket(bucket)
		if bucket == nil {
			return nil
		}
		return bucket.ForEach(func(key, value []byte) error {
			contents[string(key)] = string(value)
			return nil
		})
	})
	return contents, err
}

func (s boltStore) close() error { return s.Close() }

// pebble, each batch with Sync.
type pebbleStore struct{ *pebble.DB }

// It says what it does, and a fatal error ends the process.
type quiet struct{}

func (quiet) Infof(string, ...any)               {}
func (quiet) Errorf(string, ...any)              {}
func (quiet) Fatalf(format string, words ...any) { panic(format) }

func openPebble(directory string) (store, error) {
	db, err := pebble.Open(filepath.Join(directory, "db"), &pebble.Options{Logger: quiet{}, FormatMajorVersion: pebble.FormatNewest})
	return pebbleStore{db}, err
}

func (s pebbleStore) commit(_ int, changes []change) error {
	batch := s.NewBatch()
	for _, change := range changes {
		var err error
		if change.deletes {
			err = batch.Delete([]byte(change.key), nil)
		} else {
			err = batch.Set([]byte(change.key), []byte(change.value), nil)
		}
		if err != nil {
			return err
		}
	}
	return batch.Commit(pebble.Sync)
}

func (s pebbleStore) tidy() error { return s.Flush() }

func (s pebbleStore) contents() (map[string]string, error) {
	contents := map[string]string{}
	all, err := s.NewIter(nil)
	if err != nil {
		return nil, err
	}
	for all.First(); all.Valid(); all.Next() {
		contents[string(all.Key())] = string(all.Value())
	}
	return contents, all.Close()
}

func (s pebbleStore) close() error { return s.Close() }

// badger with SyncWrites; the files are small, or a state would have 3 GB.
type badgerStore struct{ *badger.DB }

func openBadger(directory string) (store, error) {
	options := badger.DefaultOptions(filepath.Join(directory, "db")).WithSyncWrites(true).WithLogger(nil).
		WithMemTableSize(1 << 20).WithValueLogFileSize(1 << 20).WithValueThreshold(1 << 10)
	db, err := badger.Open(options)
	return badgerStore{db}, err
}

func (s badgerStore) commit(_ int, changes []change) error {
	return s.Update(func(tx *badger.Txn) error {
		for _, change := range changes {
			var err error
			if change.deletes {
				err = tx.Delete([]byte(change.key))
			} else {
				err = tx.Set([]byte(change.key), []byte(change.value))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s badgerStore) tidy() error { return s.Flatten(1) }

func (s badgerStore) contents() (map[string]string, error) {
	contents := map[string]string{}
	err := s.View(func(tx *badger.Txn) error {
		all := tx.NewIterator(badger.DefaultIteratorOptions)
		defer all.Close()
		for all.Rewind(); all.Valid(); all.Next() {
			value, err := all.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			contents[string(all.Item().Key())] = string(value)
		}
		return nil
	})
	return contents, err
}

func (s badgerStore) close() error { return s.Close() }

// goleveldb, each batch with Sync.
type levelStore struct{ *leveldb.DB }

func openLevel(directory string) (store, error) {
	db, err := leveldb.OpenFile(filepath.Join(directory, "db"), nil)
	return levelStore{db}, err
}

func (s levelStore) commit(_ int, changes []change) error {
	batch := new(leveldb.Batch)
	for _, change := range changes {
		if change.deletes {
			batch.Delete([]byte(change.key))
		} else {
			batch.Put([]byte(change.key), []byte(change.value))
		}
	}
	return s.Write(batch, &opt.WriteOptions{Sync: true})
}

func (s levelStore) tidy() error { return s.CompactRange(util.Range{}) }

func (s levelStore) contents() (map[string]string, error) {
	contents := map[string]string{}
	all := s.NewIterator(nil, &opt.ReadOptions{Strict: opt.StrictAll})
	defer all.Release()
	for all.Next() {
		contents[string(all.Key())] = string(all.Value())
	}
	return contents, all.Error()
}

func (s levelStore) close() error { return s.Close() }

// buntdb with SyncPolicy Always.
type buntStore struct{ *buntdb.DB }

func openBunt(directory string) (store, error) {
	db, err := buntdb.Open(filepath.Join(directory, "data.db"))
	if err != nil {
		return nil, err
	}
	var config buntdb.Config
	if err := db.ReadConfig(&config); err != nil {
		return nil, err
	}
	config.SyncPolicy = buntdb.Always
	return buntStore{db}, db.SetConfig(config)
}

func (s buntStore) commit(_ int, changes []change) error {
	return s.Update(func(tx *buntdb.Tx) error {
		for _, change := range changes {
			var err error
			if change.deletes {
				_, err = tx.Delete(change.key)
			} else {
				_, _, err = tx.Set(change.key, change.value, nil)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s buntStore) tidy() error { return s.Shrink() }

func (s buntStore) contents() (map[string]string, error) {
	contents := map[string]string{}
	err := s.View(func(tx *buntdb.Tx) error {
		return tx.Ascend("", func(key, value string) bool {
			contents[key] = value
			return true
		})
	})
	return contents, err
}

func (s buntStore) close() error { return s.Close() }

// tidwall/wal syncs each write, unless NoSync is set. A transaction is an entry, as JSON.
type walStore struct{ *wal.Log }

type walChange struct {
	Key, Value string
	Deletes    bool
}

func openWal(directory string) (store, error) {
	// Small segments, so that there are several.
	log, err := wal.Open(filepath.Join(directory, "log"), &wal.Options{SegmentSize: 20 << 10})
	return walStore{log}, err
}

func (s walStore) commit(number int, changes []change) error {
	var entry []walChange
	for _, change := range changes {
		entry = append(entry, walChange{change.key, change.value, change.deletes})
	}
	text, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	return s.Write(uint64(number), text)
}

func (s walStore) tidy() error { return nil }

func (s walStore) contents() (map[string]string, error) {
	contents := map[string]string{}
	last, err := s.LastIndex()
	if err != nil {
		return nil, err
	}
	for index := uint64(1); index <= last; index++ {
		text, err := s.Read(index)
		if err != nil {
			return nil, err
		}
		var entry []walChange
		if json.Unmarshal(text, &entry) != nil {
			return nil, fmt.Errorf("entry %d is not what was written", index)
		}
		for _, change := range entry {
			if change.Deletes {
				delete(contents, change.Key)
			} else {
				contents[change.Key] = change.Value
			}
		}
	}
	return contents, nil
}

func (s walStore) close() error { return s.Close() }

// SQLite, translated to Go.
type sqliteStore struct{ *sql.DB }

func openSQLite(directory, journal, synchronous string) (store, error) {
	// The log is checkpointed at once, and not at the end only.
	db, err := sql.Open("sqlite", "file:"+filepath.Join(directory, "db")+
		"?_pragma=journal_mode("+journal+")&_pragma=synchronous("+synchronous+")&_pragma=wal_autocheckpoint(20)")
	if err != nil {
		return nil, err
	}
	// The pragmas are those of a connection.
	db.SetMaxOpenConns(1)
	return sqliteStore{db}, nil
}

func (s sqliteStore) commit(_ int, changes []change) error {
	tx, err := s.Begin()
	if err != nil {
		return err
	}
	_, err = tx.Exec("create table if not exists pairs (key text primary key, value text)")
	for _, change := range changes {
		if err != nil {
			return err
		}
		if change.deletes {
			_, err = tx.Exec("delete from pairs where key = ?", change.key)
		} else {
			_, err = tx.Exec("insert or replace into pairs values (?, ?)", change.key, change.value)
		}
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

func (s sqliteStore) tidy() error { return nil }

func (s sqliteStore) contents() (map[string]string, error) {
	contents := map[string]string{}
	var tables int
	if err := s.QueryRow("select count(*) from sqlite_master where name = 'pairs'").Scan(&tables); err != nil || tables == 0 {
		return contents, err
	}
	rows, err := s.Query("select key, value from pairs")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var key, value string
		if err := rows.Scan(&key, &value); err != nil {
			return nil, err
		}
		contents[key] = value
	}
	return contents, rows.Err()
}

func (s sqliteStore) close() error { return s.Close() }
