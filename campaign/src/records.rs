//! The two files of a sweep that grow while it goes on: its results, and the time that they took.

use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use crate::directory::{Directory, RESULTS, TIMES};
use crate::error::{Cause, Result};
use crate::lines::Lines;

/// How often results are made to stay when the machine goes down. Against a kill of the process
/// nothing needs to be done; what a machine loses is tested once more.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// How often the time that has passed is written down. What passed since is not in the summary of
/// a sweep that is killed.
const NOTE_EVERY: Duration = Duration::from_millis(250);

/// A line of one of the files.
#[derive(Debug)]
pub enum Record<R, T> {
    /// What came of an item.
    Result(R),
    /// Time that was spent.
    Time(T),
}

/// Results and times, which are appended to line by line.
#[derive(Debug)]
pub struct Records {
    results: Lines,
    times: Lines,
    /// Time until here is written down.
    noted: Instant,
    synced: Instant,
}

impl Records {
    /// Opens both files, or makes them, and calls `read` with each of their lines, results first.
    /// See [`Lines::open`]. Time counts from now on.
    ///
    /// # Errors
    /// If one cannot be read, or is damaged.
    pub fn open<R: DeserializeOwned, T: DeserializeOwned, E: Into<Cause>>(
        directory: &Directory,
        mut read: impl FnMut(Record<R, T>) -> std::result::Result<(), E>,
    ) -> Result<Self> {
        let results = Lines::open(&directory.join(RESULTS), |_, line| {
            read(Record::Result(line))
        })?;
        let times = Lines::open(&directory.join(TIMES), |_, line| read(Record::Time(line)))?;
        let now = Instant::now();
        Ok(Self {
            results,
            times,
            noted: now,
            synced: now,
        })
    }

    /// Whether there is no result.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// Time counts from now on.
    pub fn begin(&mut self) {
        self.noted = Instant::now();
    }

    /// Appends a result, which then survives a kill, and before long also the machine's going down.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&mut self, line: &str) -> Result<()> {
        self.results.append(line)?;
        if self.synced.elapsed() >= SYNC_EVERY {
            self.sync()?;
        }
        Ok(())
    }

    /// Whether it is time to write down how much has passed.
    pub fn is_time_due(&self) -> bool {
        self.noted.elapsed() >= NOTE_EVERY
    }

    /// The time that has passed since this was last asked for, to be written down.
    pub fn take_time(&mut self) -> Duration {
        let now = Instant::now();
        let passed = now - self.noted;
        self.noted = now;
        passed
    }

    /// Appends a time.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append_time(&mut self, line: &str) -> Result<()> {
        self.times.append(line)
    }

    /// Makes both stay when the machine goes down.
    ///
    /// # Errors
    /// If one cannot be written.
    pub fn sync(&mut self) -> Result<()> {
        self.synced = Instant::now();
        self.results.sync()?;
        self.times.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(directory: &Directory) -> (Records, Vec<u64>, Vec<f64>) {
        let (mut results, mut times) = (Vec::new(), Vec::new());
        let read = |record| {
            match record {
                Record::Result(result) => results.push(result),
                Record::Time(time) => times.push(time),
            }
            Ok::<_, crate::Error>(())
        };
        let records = Records::open(directory, read).expect("opened");
        (records, results, times)
    }

    #[test]
    fn what_was_appended_is_read_again() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = Directory::create(&place.path().join("out"), &[]).expect("made");
        let (mut records, ..) = open(&directory);
        assert!(records.is_empty());
        for number in 1..4 {
            records.append(&number.to_string()).expect("appended");
        }
        records.append_time("0.5").expect("appended");
        records.sync().expect("synced");
        drop(records);
        let (records, results, times) = open(&directory);
        assert!(!records.is_empty());
        assert_eq!((results, times), (vec![1, 2, 3], vec![0.5]));
    }

    #[test]
    fn no_time_is_counted_twice_or_lost() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = Directory::create(&place.path().join("out"), &[]).expect("made");
        let (mut records, ..) = open(&directory);
        std::thread::sleep(Duration::from_millis(20));
        // What passed before it began is not its time.
        let started = Instant::now();
        records.begin();
        assert!(!records.is_time_due());
        std::thread::sleep(NOTE_EVERY);
        assert!(records.is_time_due());
        let taken = records.take_time() + records.take_time();
        assert!(
            (NOTE_EVERY..=started.elapsed()).contains(&taken),
            "{taken:?}"
        );
        assert!(!records.is_time_due());
    }
}
