//! The file with the facts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, ToSql, params_from_iter};

use crate::error::{Doing, Error, Result};
use crate::functions;
use crate::program::InputRelation;
use crate::sql::{ID, UNIT, quoted, type_name};
use crate::syntax::Value;

/// Where the text is that is kept with the facts.
const NOTE: &str = "_note";

/// Marks a database as one of these: "CPdl".
const APPLICATION: i64 = 0x4350_646c;

/// The version of what is in it, whatever the facts are.
const FORMAT: u32 = 1;

/// So much of the file is kept in memory, in KiB.
const CACHE_KIB: i64 = 64 * 1024;

/// So many facts of a relation end an evaluation, if nobody says otherwise.
const DERIVED_MAX: u64 = 50_000_000;

/// A fact that is derived takes so much at most of a database in memory, on the average, in bytes.
const FACT_BYTES: u64 = 2048;

/// A database in memory grows by so much at most while rules are evaluated, in bytes.
const GROWTH_MAX_BYTES: u64 = 4 << 30;

/// No database has more pages.
const PAGES_MAX: u64 = 0xffff_fffe;

/// After so many of its instructions the database asks whether to stop: some milliseconds.
const INSTRUCTIONS_BETWEEN_QUESTIONS: i32 = 100_000;

/// Facts, in a file that stays or in memory.
pub struct Database {
    pub(crate) connection: Connection,
    /// Whether what is done is to stop.
    pub(crate) stops: Arc<dyn Fn() -> bool + Send + Sync>,
    /// So many facts of a relation end an evaluation.
    pub(crate) derived_max: u64,
    pub(crate) is_in_memory: bool,
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

impl rusqlite::types::FromSql for Value {
    fn column_result(value: ValueRef<'_>) -> rusqlite::types::FromSqlResult<Self> {
        match value {
            ValueRef::Integer(number) => Ok(Self::Integer(number)),
            ValueRef::Text(_) => Ok(Self::Text(value.as_str()?.to_owned())),
            _ => Err(rusqlite::types::FromSqlError::InvalidType),
        }
    }
}

/// The two versions of a file, as one word.
fn version(facts: u32) -> String {
    format!("{FORMAT}.{facts}")
}

impl Database {
    /// One in memory, with a table for each of these relations.
    ///
    /// # Errors
    /// If the tables cannot be made.
    pub fn in_memory(inputs: &[InputRelation]) -> Result<Self> {
        let connection = Connection::open_in_memory();
        let mut database = Self::of(connection.doing(|| "make a database in memory".into())?)?;
        database.is_in_memory = true;
        database.make_tables(inputs)?;
        Ok(database)
    }

    /// Makes a file, and has it filled: it is there when it is whole. `version` is that of the
    /// relations.
    ///
    /// # Errors
    /// If it cannot be made, or `fill` fails.
    pub fn create<E: From<Error>>(
        path: &Path,
        inputs: &[InputRelation],
        facts_version: u32,
        fill: impl FnOnce(&mut Self) -> std::result::Result<(), E>,
    ) -> std::result::Result<Self, E> {
        let new = beside(path);
        let _ = std::fs::remove_file(&new);
        let filled = Self::create_at(&new, inputs, facts_version).map_err(E::from);
        let filled = filled.and_then(|mut database| {
            fill(&mut database)?;
            database.run("PRAGMA synchronous = NORMAL")?;
            Ok(())
        });
        let renamed = filled.and_then(|()| {
            std::fs::rename(&new, path).map_err(|error| {
                let doing = format!("rename {} to {}", new.display(), path.display());
                let error = rusqlite::Error::ToSqlConversionFailure(error.into());
                E::from(Error::Database { doing, error })
            })
        });
        if let Err(error) = renamed {
            let _ = std::fs::remove_file(&new);
            return Err(error);
        }
        Ok(Self::open(path, facts_version)?)
    }

    fn create_at(path: &Path, inputs: &[InputRelation], facts_version: u32) -> Result<Self> {
        let doing = || format!("make {}", path.display());
        let database = Self::of(Connection::open(path).doing(doing)?)?;
        // If it is not finished, it is thrown away.
        database.run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
        let versions = format!(
            "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {};",
            FORMAT << 16 | facts_version
        );
        database.run(&versions)?;
        database.make_tables(inputs)?;
        Ok(database)
    }

    /// Keeps a text with the facts, about what they are of.
    ///
    /// # Errors
    /// If there is one already, or it cannot be written.
    pub fn set_note(&mut self, text: &str) -> Result<()> {
        self.run(&format!("CREATE TABLE {NOTE} (text TEXT NOT NULL) STRICT"))?;
        let sql = format!("INSERT INTO {NOTE} VALUES (?1)");
        let written = self.connection.execute(&sql, [text]);
        written.doing(|| "write a note".into()).map(|_| ())
    }

    /// The text that was kept with the facts, if there is one.
    pub fn note(&self) -> Option<String> {
        let sql = format!("SELECT text FROM {NOTE}");
        self.connection.query_row(&sql, [], |row| row.get(0)).ok()
    }

    /// Opens a file that was made before.
    ///
    /// # Errors
    /// If it is none, or of another version.
    pub fn open(path: &Path, facts_version: u32) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags);
        let connection = connection.doing(|| format!("open {}", path.display()))?;
        let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let not_ours = || Error::NotOurs { path: path.into() };
        if pragma("application_id").map_err(|_| not_ours())? != APPLICATION {
            return Err(not_ours());
        }
        let found = pragma("user_version").map_err(|_| not_ours())? as u32;
        if found != FORMAT << 16 | facts_version {
            return Err(Error::OtherVersion {
                path: path.into(),
                found: format!("{}.{}", found >> 16, found & 0xffff),
                known: version(facts_version),
            });
        }
        Self::of(connection)
    }

    fn of(connection: Connection) -> Result<Self> {
        let database = Self {
            connection,
            stops: Arc::new(|| false),
            derived_max: DERIVED_MAX,
            is_in_memory: false,
        };
        // Temporary tables go to files as well: memory has a bound.
        database.run(&format!(
            "PRAGMA cache_size = -{CACHE_KIB}; PRAGMA temp_store = FILE;"
        ))?;
        functions::register(&database.connection).doing(|| "add functions".into())?;
        Ok(database)
    }

    /// Has an evaluation or an extension after which a relation has more facts, with those that depend on it
    /// and that it depends on, end with [`Error::NoEnd`] or [`Error::TooMany`].
    pub fn derive_at_most(&mut self, facts: u64) {
        self.derived_max = facts;
    }

    /// By so much a database in memory may grow by what is derived, in bytes.
    pub(crate) fn growth_max_bytes(&self) -> u64 {
        let facts_bytes = self.derived_max.saturating_mul(FACT_BYTES);
        facts_bytes.min(GROWTH_MAX_BYTES)
    }

    /// Has a database in memory have room for so many bytes more. A statement that needs more than
    /// that fails.
    pub(crate) fn bound_growth(&self, growth_bytes: u64) -> Result<()> {
        if !self.is_in_memory {
            return Ok(());
        }
        let pragma = |name: &str| {
            let value = self
                .connection
                .pragma_query_value(None, name, |row| row.get::<_, i64>(0));
            value.doing(|| format!("ask for {name}"))
        };
        let used = pragma("page_count")? - pragma("freelist_count")?;
        let growth = growth_bytes / pragma("page_size")?.unsigned_abs();
        let pages = growth.saturating_add(used.unsigned_abs());
        self.run(&format!("PRAGMA max_page_count = {}", pages.min(PAGES_MAX)))
    }

    /// Has everything end with [`Error::Interrupted`] soon after `stops` says so, within a statement
    /// too: that of one rule can take for ever.
    ///
    /// # Errors
    /// If the database refuses to be asked.
    pub fn stop_when(&mut self, stops: impl Fn() -> bool + Send + Sync + 'static) -> Result<()> {
        self.stops = Arc::new(stops);
        let stops = Arc::clone(&self.stops);
        let asked = self
            .connection
            .progress_handler(INSTRUCTIONS_BETWEEN_QUESTIONS, Some(move || stops()));
        asked.doing(|| "have the database ask whether to stop".into())
    }

    /// Runs statements that say nothing.
    pub(crate) fn run(&self, sql: &str) -> Result<()> {
        let ran = self.connection.execute_batch(sql);
        ran.doing(|| format!("run `{}`", sql.trim()))
    }

    /// Has all be added that `fill` adds, or nothing.
    ///
    /// # Errors
    /// If `fill` fails, or the database does.
    pub fn add_whole<E: From<Error>>(
        &mut self,
        fill: impl FnOnce(&mut Self) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.run("BEGIN")?;
        let filled = fill(self).and_then(|()| Ok(self.run("COMMIT")?));
        if filled.is_err() {
            let _ = self.run("ROLLBACK");
        }
        filled
    }

    fn make_tables(&self, inputs: &[InputRelation]) -> Result<()> {
        for input in inputs {
            let columns = input.columns.iter().map(|(name, kind)| {
                let kind = type_name(Some(*kind));
                format!("{} {kind} NOT NULL", quoted(name))
            });
            let mut columns: Vec<_> = columns.collect();
            if columns.is_empty() {
                columns.push(format!("{UNIT} INTEGER NOT NULL DEFAULT 0"));
            }
            self.run(&format!(
                "CREATE TABLE {} ({ID} INTEGER PRIMARY KEY, {}) STRICT",
                quoted(input.name),
                columns.join(", ")
            ))?;
        }
        Ok(())
    }

    /// Adds facts of an input relation, each with the values of its columns.
    ///
    /// # Errors
    /// If there is no such relation, or a fact does not fit.
    pub fn add(
        &mut self,
        relation: &str,
        facts: impl IntoIterator<Item = Vec<Value>>,
    ) -> Result<()> {
        let doing = || format!("add facts to {relation}");
        let transaction = self.connection.savepoint().doing(doing)?;
        {
            let mut insert = None;
            for fact in facts {
                if insert.is_none() {
                    let places = vec!["?"; fact.len()].join(", ");
                    let columns = columns_of(&transaction, relation).doing(doing)?;
                    let sql = format!(
                        "INSERT INTO {} ({}) VALUES ({places})",
                        quoted(relation),
                        columns.join(", ")
                    );
                    insert = Some(transaction.prepare(&sql).doing(doing)?);
                }
                let insert = insert.as_mut().expect("it was made");
                insert.execute(params_from_iter(&fact)).doing(doing)?;
            }
        }
        transaction.commit().doing(doing)
    }

    /// Removes facts of an input relation: those that have these values in these columns, and, in the
    /// column of `from`, that number or a larger one.
    ///
    /// # Errors
    /// If there is no such relation or column.
    pub fn remove(
        &mut self,
        relation: &str,
        equal: &[(&str, Value)],
        from: Option<(&str, i64)>,
    ) -> Result<()> {
        let equals = equal
            .iter()
            .map(|(column, _)| format!("{} = ?", quoted(column)));
        let least = from.map(|(column, _)| format!("{} >= ?", quoted(column)));
        let wanted: Vec<_> = equals.chain(least).collect();
        let mut sql = format!("DELETE FROM {}", quoted(relation));
        if !wanted.is_empty() {
            sql += &format!(" WHERE {}", wanted.join(" AND "));
        }
        let values = equal.iter().map(|(_, value)| value.clone());
        let values = values.chain(from.map(|(_, number)| Value::Integer(number)));
        let prepared = self.connection.prepare_cached(&sql);
        let removed = prepared.and_then(|mut sql| sql.execute(params_from_iter(values)));
        if removed.doing(|| format!("remove facts of {relation}"))? > 0 {
            self.forget_marks(None)?;
        }
        Ok(())
    }

    /// How many facts an input relation has.
    ///
    /// # Errors
    /// If there is no such relation.
    pub fn count(&self, table: &str) -> Result<u64> {
        let sql = format!("SELECT count(*) FROM {}", quoted(table));
        let count = self
            .connection
            .query_row(&sql, [], |row| row.get::<_, i64>(0));
        Ok(count.doing(|| format!("count {table}"))? as u64)
    }
}

/// The columns of an input relation, quoted.
fn columns_of(connection: &Connection, relation: &str) -> rusqlite::Result<Vec<String>> {
    let sql = format!(
        "SELECT name FROM pragma_table_info({})",
        quoted_text(relation)
    );
    let mut names = connection.prepare(&sql)?;
    let names = names.query_map([], |row| row.get::<_, String>(0))?;
    let names = names.collect::<rusqlite::Result<Vec<_>>>()?;
    let named = names.iter().filter(|name| !name.starts_with('_'));
    Ok(named.map(|name| quoted(name)).collect())
}

fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}
