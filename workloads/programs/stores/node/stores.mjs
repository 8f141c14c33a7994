// Stores for Node, each as a program: it makes the transactions of ../README.md and says which are
// committed, and checks what a crash left of them.
//
//     stores.mjs STORE run DIR
//     stores.mjs STORE check DIR ACKS
//     stores.mjs STORE check --serve

import fs from 'node:fs'
import path from 'node:path'
import readline from 'node:readline'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const TRANSACTIONS = 8

function value(key, number, length) {
  let text = ''
  for (let word = 0; text.length < length; word++) text += `${key}/${number}:${word} `
  return text.slice(0, length)
}

/** What commit `number` does, from 1 on: keys and values, null for one that is deleted. */
function transaction(number) {
  const changes = new Map([['counter', `${number}`]])
  const all = [[`small${number % 3}`, 400], [`big${number % 2}`, 8192], [`new${number}`, 400]]
  for (const [key, length] of all) changes.set(key, value(key, number, length))
  if (number > 3) changes.set(`new${number - 3}`, null)
  return changes
}

/** The store after commit `number`; it is empty after 0. */
function after(number) {
  const state = new Map()
  for (let n = 1; n <= number; n++) {
    for (const [key, value] of transaction(n)) {
      if (value === null) state.delete(key)
      else state.set(key, value)
    }
  }
  return state
}

/** LevelDB, each batch with sync. */
class ClassicLevelStore {
  static async open(directory) {
    const { ClassicLevel } = require('classic-level')
    const store = new this()
    store.db = new ClassicLevel(path.join(directory, 'db'))
    await store.db.open()
    return store
  }

  async commit(changes) {
    const batch = [...changes].map(([key, value]) =>
      value === null ? { type: 'del', key } : { type: 'put', key, value })
    await this.db.batch(batch, { sync: true })
  }

  tidy() {
    return this.db.compactRange('a', 'z')
  }

  async contents() {
    return new Map(await this.db.iterator().all())
  }

  close() {
    return this.db.close()
  }
}

/** LMDB: a commit is durable when `flushed` is fulfilled. */
class LmdbStore {
  static open(directory) {
    const store = new this()
    store.db = require('lmdb').open({ path: path.join(directory, 'db') })
    return store
  }

  async commit(changes) {
    await this.db.transaction(() => {
      for (const [key, value] of changes) {
        if (value === null) this.db.remove(key)
        else this.db.put(key, value)
      }
    })
    await this.db.flushed
  }

  tidy() {}

  contents() {
    return new Map([...this.db.getRange()].map(({ key, value }) => [key, value]))
  }

  close() {
    return this.db.close()
  }
}

/** SQLite with a log and synchronous=FULL. */
class SqliteStore {
  static open(directory) {
    const store = new this()
    store.db = require('better-sqlite3')(path.join(directory, 'db'))
    // The log is checkpointed at once, and not at the end only.
    for (const pragma of ['journal_mode=WAL', 'synchronous=FULL', 'wal_autocheckpoint=20']) store.db.pragma(pragma)
    return store
  }

  commit(changes) {
    this.db.transaction(() => {
      this.db.exec('create table if not exists pairs (key text primary key, value text)')
      for (const [key, value] of changes) {
        if (value === null) this.db.prepare('delete from pairs where key = ?').run(key)
        else this.db.prepare('insert or replace into pairs values (?, ?)').run(key, value)
      }
    })()
  }

  tidy() {}

  contents() {
    if (!this.db.prepare("select 1 from sqlite_master where name = 'pairs'").get()) return new Map()
    return new Map(this.db.prepare('select key, value from pairs').raw().all())
  }

  close() {
    this.db.close()
  }
}

/** nedb has no transactions of several documents: one document holds all keys. */
class NedbStore {
  static async open(directory) {
    const Datastore = require('@seald-io/nedb')
    const store = new this()
    store.db = new Datastore({ filename: path.join(directory, 'data.db') })
    await store.db.loadDatabaseAsync()
    return store
  }

  async commit(_, number) {
    const document = { _id: 'all', pairs: Object.fromEntries(after(number)) }
    await this.db.updateAsync({ _id: 'all' }, document, { upsert: true })
  }

  tidy() {
    return this.db.compactDatafileAsync()
  }

  async contents() {
    const document = await this.db.findOneAsync({ _id: 'all' })
    return new Map(Object.entries(document?.pairs ?? {}))
  }

  close() {}
}

/** lowdb writes all of a JSON file. */
class LowdbStore {
  static async open(directory) {
    const { JSONFilePreset } = await import('lowdb/node')
    const store = new this()
    store.db = await JSONFilePreset(path.join(directory, 'db.json'), {})
    return store
  }

  async commit(_, number) {
    this.db.data = Object.fromEntries(after(number))
    await this.db.write()
  }

  tidy() {}

  contents() {
    return new Map(Object.entries(this.db.data))
  }

  close() {}
}

/** write-file-atomic writes a file, which is read again without it. */
class FileStore {
  static open(directory) {
    const store = new this()
    store.path = path.join(directory, 'db.json')
    return store
  }

  commit(_, number) {
    return require('write-file-atomic')(this.path, JSON.stringify(Object.fromEntries(after(number))))
  }

  tidy() {}

  contents() {
    if (!fs.existsSync(this.path)) return new Map()
    return new Map(Object.entries(JSON.parse(fs.readFileSync(this.path, 'utf8'))))
  }

  close() {}
}

const stores = {
  'better-sqlite3': SqliteStore,
  'classic-level': ClassicLevelStore,
  'lmdb': LmdbStore,
  'lowdb': LowdbStore,
  'nedb': NedbStore,
  'write-file-atomic': FileStore,
}

async function run(Store, directory) {
  const store = await Store.open(directory)
  const transactions = Math.min(process.env.CRASHPOINT_OPERATIONS ?? TRANSACTIONS, TRANSACTIONS)
  for (let number = 1; number <= transactions; number++) {
    await store.commit(transaction(number), number)
    // One call, so that the line is there or is not.
    fs.writeSync(1, `committed ${number}\n`)
    if (number === TRANSACTIONS / 2) await store.tidy()
  }
  await store.close()
}

async function wrong(Store, directory, acknowledged) {
  let contents
  try {
    const store = await Store.open(directory)
    try {
      contents = await store.contents()
    } finally {
      await store.close()
    }
  } catch (error) {
    const when = acknowledged ? '' : 'nothing was acknowledged, and '
    const words = [error.message, error.cause?.message].filter(Boolean).join(': ')
    return `${when}the store cannot be read: ${words.replaceAll(directory, '{dir}').replace(/\s+/g, ' ').slice(0, 200)}`
  }
  return differs(contents, acknowledged)
}

const same = (a, b) => a.size === b.size && [...a].every(([key, value]) => b.get(key) === value)

/** How the contents differ from those after the last acknowledged commit, and after the next one, which
 * was under way. */
function differs(contents, acknowledged) {
  if (same(contents, after(acknowledged)) || same(contents, after(acknowledged + 1))) return null
  for (let number = 0; number <= TRANSACTIONS; number++) {
    if (!same(contents, after(number))) continue
    if (number < acknowledged) return `acknowledged commit ${number + 1} is lost`
    return `commit ${number} is there, and was never begun`
  }
  return 'the contents are those of no commit'
}

async function look(Store, directory, acks) {
  const acknowledged = fs.readFileSync(acks, 'utf8').split('\n').filter(line => line.startsWith('committed ')).length
  const words = await wrong(Store, directory, acknowledged)
  fs.writeSync(1, words === null ? 'ok\n' : `broken ${words}\n`)
  return words === null
}

const [name, what, first, second] = process.argv.slice(2)
const Store = stores[name]
if (!Store || !first || !['run', 'check'].includes(what)) {
  console.error(`usage: stores.mjs ${Object.keys(stores).join('|')} run DIR, or check DIR ACKS, or check --serve`)
  process.exit(2)
}
if (what === 'run') {
  await run(Store, first)
} else if (first === '--serve') {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    try {
      await look(Store, ...line.split('\t'))
    } catch (error) { // Of this state only: the next one may do.
      console.error(error)
    }
    fs.writeSync(1, 'end\n')
  }
} else {
  process.exitCode = await look(Store, first, second) ? 0 : 1
}
