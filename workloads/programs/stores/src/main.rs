//! Stores from crates.io, each as a program: it makes transactions and says which are committed,
//! and checks what a crash left of them.
//!
//!     stores redb|fjall write DIR durable|lazy
//!     stores redb|fjall check DIR ACKS
//!     stores redb|fjall check --serve
//!
//! Commit 0 makes the tables; commit N, from 1 to 4, adds entry N to one table and writes into the
//! other what all entries come to. `committed N` is printed when it has returned.
//!
//! Exit status: 0 all is well, 1 the check found something, 2 it could not run.

#![forbid(unsafe_code)]

mod fjall_store;
mod redb_store;

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use crate::fjall_store::FjallStore;
use crate::redb_store::RedbStore;

const TRANSACTIONS: u64 = 4;
/// An entry that does not fit into a page.
const WORDS: usize = 800;

const USAGE: &str =
    "usage: stores redb|fjall write DIR durable|lazy, or stores redb|fjall check DIR ACKS|--serve";

/// Why something did not go well.
#[derive(Debug)]
pub enum Trouble {
    /// The store cannot use what is in its directory.
    Damaged(String),
    /// Something else, such as a full disk: it says nothing of the store.
    Here(String),
}

impl From<io::Error> for Trouble {
    /// An error of a file that is cut off, missing or nonsense is one of the files.
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{AlreadyExists, InvalidData, InvalidInput, NotFound, UnexpectedEof};
        match error.kind() {
            AlreadyExists | InvalidData | InvalidInput | NotFound | UnexpectedEof => {
                Self::Damaged(error.to_string())
            }
            _ => Self::Here(error.to_string()),
        }
    }
}

pub type Result<T> = std::result::Result<T, Trouble>;

/// What a store holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Whether commit 0 is there.
    pub has_tables: bool,
    /// The entries by their numbers.
    pub entries: BTreeMap<u64, String>,
    /// The words "entries" and "length", and what the table of totals has for them.
    pub totals: BTreeMap<String, u64>,
}

/// A store.
pub trait Store: Sized {
    /// Opens the one in a directory, or makes it. What it did, and what was lazily committed, need
    /// not be durable.
    fn open(directory: &Path) -> Result<Self>;
    /// Makes the tables, with totals of 0.
    fn make_tables(&mut self, is_durable: bool) -> Result<()>;
    /// Adds an entry and sets the totals.
    fn add(
        &mut self,
        number: u64,
        words: &str,
        totals: &BTreeMap<String, u64>,
        is_durable: bool,
    ) -> Result<()>;
    /// What the store does in the background at times, now: flush, or compact.
    fn tidy(&mut self) -> Result<()>;
    /// All that it holds, after it has looked whether it is sound.
    fn contents(&mut self) -> Result<Contents>;
}

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["redb", ref rest @ ..] => run::<RedbStore>(rest),
        ["fjall", ref rest @ ..] => run::<FjallStore>(rest),
        _ => Err(Trouble::Here(USAGE.into())),
    };
    done.unwrap_or_else(|(Trouble::Damaged(why) | Trouble::Here(why))| {
        eprintln!("error: {why}");
        ExitCode::from(2)
    })
}

fn run<S: Store>(arguments: &[&str]) -> Result<ExitCode> {
    match *arguments {
        ["write", directory, durability @ ("durable" | "lazy")] => {
            write::<S>(Path::new(directory), durability == "durable")?;
        }
        ["check", "--serve"] => serve::<S>()?,
        ["check", directory, acks] => {
            let wrong = look::<S>(Path::new(directory), Path::new(acks))?;
            say(wrong.as_ref());
            return Ok(ExitCode::from(u8::from(wrong.is_some())));
        }
        _ => return Err(Trouble::Here(USAGE.into())),
    }
    Ok(ExitCode::SUCCESS)
}

fn words(number: u64) -> String {
    (0..WORDS).map(|word| format!("{number}:{word} ")).collect()
}

fn totals(entries: u64) -> BTreeMap<String, u64> {
    let length = (1..=entries).map(|number| words(number).len() as u64).sum();
    BTreeMap::from([("entries".into(), entries), ("length".into(), length)])
}

/// How many transactions are made: those of every run, or fewer if the environment says so.
fn transactions() -> u64 {
    let most = std::env::var("CRASHPOINT_OPERATIONS");
    most.ok()
        .and_then(|most| most.parse().ok())
        .map_or(TRANSACTIONS, |most: u64| most.min(TRANSACTIONS))
}

fn write<S: Store>(directory: &Path, is_durable: bool) -> Result<()> {
    let mut store = S::open(directory)?;
    // The name of a new file is its user's to make durable, if the store does not.
    fs::File::open(directory)?.sync_all()?;
    store.make_tables(is_durable)?;
    acknowledge(0)?;
    for number in 1..=transactions() {
        store.add(number, &words(number), &totals(number), is_durable)?;
        acknowledge(number)?;
        if number == TRANSACTIONS / 2 {
            store.tidy()?;
        }
    }
    Ok(())
}

fn acknowledge(number: u64) -> Result<()> {
    let mut out = io::stdout();
    writeln!(out, "committed {number}")?;
    Ok(out.flush()?)
}

fn say(wrong: Option<&String>) {
    match wrong {
        None => println!("ok"),
        Some(wrong) => println!("broken {wrong}"),
    }
}

fn serve<S: Store>() -> Result<()> {
    for line in io::stdin().lock().lines() {
        let line = line?;
        let looked = match line.split_once('\t') {
            Some((directory, acks)) => look::<S>(Path::new(directory), Path::new(acks)),
            None => Err(Trouble::Here("no line DIR<TAB>ACKS".into())),
        };
        match looked {
            Ok(wrong) => say(wrong.as_ref()),
            Err(Trouble::Damaged(why) | Trouble::Here(why)) => eprintln!("error: {why}"),
        }
        println!("end");
        io::stdout().flush()?;
    }
    Ok(())
}

/// What is wrong with a state.
fn look<S: Store>(directory: &Path, acks: &Path) -> Result<Option<String>> {
    let here = |error: io::Error| Trouble::Here(format!("{}: {error}", acks.display()));
    let acks = fs::read_to_string(acks).map_err(here)?;
    let numbers = acks
        .lines()
        .filter_map(|line| line.strip_prefix("committed ")?.parse().ok());
    let last: Option<u64> = numbers.max();
    let read = || S::open(directory).and_then(|mut store| store.contents());
    let contents = match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(contents)) => contents,
        // Nothing was promised yet.
        Ok(Err(Trouble::Damaged(_))) | Err(_) if last.is_none() => return Ok(None),
        Ok(Err(Trouble::Damaged(why))) => return Ok(Some(format!("the store is damaged: {why}"))),
        Ok(Err(here)) => return Err(here),
        Err(_) => return Ok(Some("the store panics when it is opened".into())),
    };
    Ok(wrong(&contents, last))
}

fn wrong(contents: &Contents, last: Option<u64>) -> Option<String> {
    if !contents.has_tables {
        return last.map(|_| "acknowledged commit 0 is lost".into());
    }
    for (place, (number, text)) in (1..).zip(&contents.entries) {
        if *text != words(*number) {
            return Some(format!("entry {number} has a value that was never written"));
        }
        if *number != place {
            return Some(format!(
                "entry {place} is lost, and entry {number} is there"
            ));
        }
    }
    let found = contents.entries.len() as u64;
    if contents.totals != totals(found) {
        return Some(format!(
            "half of a commit is there: {found} entries, and totals {:?}",
            contents.totals
        ));
    }
    match last {
        None if found > 0 => Some(format!("commit {found} is there, and was never begun")),
        Some(last) if found < last => Some(format!("acknowledged commit {} is lost", found + 1)),
        Some(last) if found > last + 1 => {
            Some(format!("commit {found} is there, and was never begun"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(entries: u64) -> Contents {
        let texts = (1..=entries)
            .map(|number| (number, words(number)))
            .collect();
        Contents {
            has_tables: true,
            entries: texts,
            totals: totals(entries),
        }
    }

    #[test]
    fn commits_are_there_whole_and_none_is_missing() {
        assert_eq!(wrong(&after(2), Some(2)), None);
        assert_eq!(wrong(&after(3), Some(2)), None, "it was in flight");
        assert_eq!(
            wrong(&after(1), Some(2)).as_deref(),
            Some("acknowledged commit 2 is lost")
        );
        assert_eq!(
            wrong(&after(4), Some(2)).as_deref(),
            Some("commit 4 is there, and was never begun")
        );
        assert_eq!(
            wrong(&Contents::default(), Some(0)).as_deref(),
            Some("acknowledged commit 0 is lost")
        );
        assert_eq!(wrong(&Contents::default(), None), None);
        let half = Contents {
            totals: totals(1),
            ..after(2)
        };
        assert!(
            wrong(&half, Some(1))
                .is_some_and(|wrong| wrong.starts_with("half of a commit is there"))
        );
        let mut other = after(2);
        other.entries.insert(2, "other".into());
        assert_eq!(
            wrong(&other, Some(1)).as_deref(),
            Some("entry 2 has a value that was never written")
        );
    }

    fn outlives<S: Store>() {
        let directory = env::temp_dir().join(format!(
            "stores-{}-{}",
            std::process::id(),
            std::any::type_name::<S>().len()
        ));
        fs::create_dir(&directory).expect("a new directory");
        write::<S>(&directory, true).expect("it works");
        let acks = directory.with_extension("acks");
        fs::write(&acks, "committed 0\ncommitted 4\n").expect("it is written");
        assert_eq!(look::<S>(&directory, &acks).expect("it can be read"), None);
        fs::write(&acks, "committed 5\n").expect("it is written");
        assert_eq!(
            look::<S>(&directory, &acks)
                .expect("it can be read")
                .as_deref(),
            Some("acknowledged commit 5 is lost")
        );
        fs::remove_dir_all(&directory)
            .and_then(|()| fs::remove_file(&acks))
            .expect("ours");
    }

    #[test]
    fn redb_has_what_it_committed() {
        outlives::<RedbStore>();
    }

    #[test]
    fn fjall_has_what_it_committed() {
        outlives::<FjallStore>();
    }
}
