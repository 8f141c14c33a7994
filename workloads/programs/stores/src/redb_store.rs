//! redb: one file of pages, copied on write.

use std::collections::BTreeMap;
use std::path::Path;

use redb::{Database, Durability, Error, ReadableDatabase, ReadableTable, TableDefinition};

use crate::{Contents, Result, Store, Trouble};

const ENTRIES: TableDefinition<u64, &str> = TableDefinition::new("entries");
const TOTALS: TableDefinition<&str, u64> = TableDefinition::new("totals");

pub struct RedbStore(Database);

fn trouble(error: impl Into<Error>) -> Trouble {
    match error.into() {
        Error::Io(error) => error.into(),
        error @ (Error::DatabaseAlreadyOpen | Error::PreviousIo) => {
            Trouble::Here(error.to_string())
        }
        error => Trouble::Damaged(error.to_string()),
    }
}

impl RedbStore {
    fn commit(
        &self,
        entry: Option<(u64, &str)>,
        totals: &BTreeMap<String, u64>,
        is_durable: bool,
    ) -> Result<()> {
        let mut transaction = self.0.begin_write().map_err(trouble)?;
        let durability = if is_durable {
            Durability::Immediate
        } else {
            Durability::None
        };
        transaction.set_durability(durability).map_err(trouble)?;
        {
            let mut entries = transaction.open_table(ENTRIES).map_err(trouble)?;
            if let Some((number, words)) = entry {
                entries.insert(number, words).map_err(trouble)?;
            }
            let mut table = transaction.open_table(TOTALS).map_err(trouble)?;
            for (name, total) in totals {
                table.insert(name.as_str(), total).map_err(trouble)?;
            }
        }
        transaction.commit().map_err(trouble)
    }
}

impl Store for RedbStore {
    fn open(directory: &Path) -> Result<Self> {
        Database::create(directory.join("db"))
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
        self.0.compact().map(drop).map_err(trouble)
    }

    fn contents(&mut self) -> Result<Contents> {
        if !self.0.check_integrity().map_err(trouble)? {
            return Err(Trouble::Damaged(
                "it was opened, and had to be repaired then".into(),
            ));
        }
        let transaction = self.0.begin_read().map_err(trouble)?;
        if transaction.list_tables().map_err(trouble)?.next().is_none() {
            return Ok(Contents::default());
        }
        let mut contents = Contents {
            has_tables: true,
            ..Contents::default()
        };
        for entry in transaction
            .open_table(ENTRIES)
            .map_err(trouble)?
            .iter()
            .map_err(trouble)?
        {
            let (number, words) = entry.map_err(trouble)?;
            contents
                .entries
                .insert(number.value(), words.value().to_owned());
        }
        for total in transaction
            .open_table(TOTALS)
            .map_err(trouble)?
            .iter()
            .map_err(trouble)?
        {
            let (name, total) = total.map_err(trouble)?;
            contents
                .totals
                .insert(name.value().to_owned(), total.value());
        }
        Ok(contents)
    }
}
