//! fjall: a log-structured tree for each table, and one journal for all.

use std::collections::BTreeMap;
use std::path::Path;

use fjall::{Database, Error, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::{Contents, Result, Store, Trouble};

const ENTRIES: &str = "entries";
const TOTALS: &str = "totals";

pub struct FjallStore(Database);

fn trouble(error: Error) -> Trouble {
    match error {
        Error::Io(error) | Error::Storage(fjall::LsmError::Io(error)) => error.into(),
        error @ (Error::Locked | Error::Poisoned) => Trouble::Here(error.to_string()),
        error => Trouble::Damaged(error.to_string()),
    }
}

impl FjallStore {
    fn table(&self, name: &str) -> Result<Keyspace> {
        self.0
            .keyspace(name, KeyspaceCreateOptions::default)
            .map_err(trouble)
    }

    fn commit(
        &self,
        entry: Option<(u64, &str)>,
        totals: &BTreeMap<String, u64>,
        is_durable: bool,
    ) -> Result<()> {
        let (entries, table) = (self.table(ENTRIES)?, self.table(TOTALS)?);
        let mut batch = self
            .0
            .batch()
            .durability(is_durable.then_some(PersistMode::SyncAll));
        if let Some((number, words)) = entry {
            batch.insert(&entries, number.to_be_bytes(), words);
        }
        for (name, total) in totals {
            batch.insert(&table, name.as_str(), total.to_be_bytes());
        }
        batch.commit().map_err(trouble)
    }
}

fn number(bytes: &[u8]) -> Result<u64> {
    bytes
        .try_into()
        .map(u64::from_be_bytes)
        .map_err(|_| Trouble::Damaged("a number has another length".into()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Store for FjallStore {
    fn open(directory: &Path) -> Result<Self> {
        Database::builder(directory.join("db"))
            .open()
            .map(Self)
            .map_err(trouble)
    }

    fn make_tables(&mut self, is_durable: bool) -> Result<()> {
        self.commit(None, &crate::totals(0), is_durable)
    }

    fn add(
        &mut self,
        number: u64,
        words: &str,
        totals: &BTreeMap<String, u64>,
        is_durable: bool,
    ) -> Result<()> {
        self.commit(Some((number, words)), totals, is_durable)
    }

    fn tidy(&mut self) -> Result<()> {
        self.table(ENTRIES)?
            .rotate_memtable_and_wait()
            .map_err(trouble)?;
        self.table(TOTALS)?
            .rotate_memtable_and_wait()
            .map_err(trouble)
    }

    fn contents(&mut self) -> Result<Contents> {
        if !self.0.keyspace_exists(ENTRIES) && !self.0.keyspace_exists(TOTALS) {
            return Ok(Contents::default());
        }
        let mut contents = Contents::default();
        for entry in self.table(ENTRIES)?.iter() {
            let (key, words) = entry.into_inner().map_err(trouble)?;
            contents.entries.insert(number(&key)?, text(&words));
        }
        for total in self.table(TOTALS)?.iter() {
            let (name, total) = total.into_inner().map_err(trouble)?;
            contents.totals.insert(text(&name), number(&total)?);
        }
        // Tables come one after the other, and are made when the totals are.
        contents.has_tables = !contents.totals.is_empty();
        Ok(contents)
    }
}
