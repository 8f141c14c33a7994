//! What the log of a run says of a crash: which writes were lost and kept, while which operation they
//! were written, and what would have kept them.

use std::collections::BTreeSet;

use pace_rules::disk::{Disk, Log, Relaxation, Request, Write};
use workloads::{Op, Workload};

use crate::result::{LogEntry, LostBytes, RunLog, StateFindings};

/// So many writes are listed one by one.
const LISTED_MAX: usize = 12;

/// The log of a run, and the disk that kept what it says.
#[derive(Debug, Clone)]
pub struct Evidence<'a> {
    log: &'a RunLog,
    disk: Disk,
    rules: Log,
}

impl<'a> Evidence<'a> {
    /// What `disk` made of a log.
    pub fn new(log: &'a RunLog, disk: Disk) -> Self {
        let durable = log.entries.first().map_or(0, |entry| entry.place as usize);
        let end = log.entries.last().map_or(0, |entry| entry.place as usize + 1);
        let mut requests = vec![Request::Nothing; end];
        for entry in &log.entries {
            let place = entry.place as usize;
            requests[place] = match entry.kind {
                'W' | 'U' | 'D' => Request::Write(Write {
                    fua: entry.kind == 'U',
                    offset: entry.offset,
                    length: entry.length,
                    completed: place + 1,
                    priority: 0,
                }),
                'F' => Request::Flush,
                _ => Request::Nothing,
            };
        }
        Self { log, disk, rules: Log::new(&requests, durable, disk) }
    }

    /// What the disk was asked while an operation was done, in the order of the log.
    pub(crate) fn asked_by(&self, operation: u32) -> String {
        let asked = self.log.entries.iter().filter(|entry| entry.operation == Some(operation));
        let mut runs: Vec<(char, usize)> = Vec::new();
        for kind in asked.map(|entry| entry.kind).filter(|kind| "WUDF".contains(*kind)) {
            match runs.last_mut() {
                Some((last, count)) if *last == kind => *count += 1,
                _ => runs.push((kind, 1)),
            }
        }
        runs.iter().map(|(kind, count)| run_words(*kind, *count)).collect::<Vec<_>>().join(", ")
    }

    /// What became of the writes that the disk need not have kept.
    pub(crate) fn fate_text(&self, state: &StateFindings) -> String {
        let mut text = String::new();
        if let Some(never) = self.never_happened() {
            text += &format!("  lost      {}, though it had answered it\n", self.write_words(never));
        }
        for lost in state.lost.iter().take(LISTED_MAX) {
            text += &format!("  lost      {}\n", self.lost_words(lost));
        }
        text += &more_words(state.lost.len(), "lost");
        let lost: BTreeSet<u32> = state.lost.iter().map(|lost| lost.place).collect();
        let kept = self.pending(state).into_iter().filter(|entry| !lost.contains(&entry.place));
        // A prefix is told by what it is.
        let kept: Vec<_> = kept.filter(|_| state.state.relaxation != Relaxation::Prefix).collect();
        for entry in kept.iter().take(LISTED_MAX) {
            text += &format!("  kept      {}\n", self.write_words(entry));
        }
        text + &more_words(kept.len(), "kept")
    }

    /// What would have prevented it, as far as the state shows that.
    pub fn ways_out(&self, state: &StateFindings, workload: &Workload) -> Vec<String> {
        let operations: Vec<&Op> = workload.operations().collect();
        let mut ways: Vec<String> = Vec::new();
        for finding in &state.findings {
            let way = match finding.promised_by.and_then(|number| Some((number, *operations.get(number)?))) {
                Some((number, op)) => self.way_for_operation(state, number as u32, op),
                None => self.way_for_order(state),
            };
            ways.extend(Some(way).filter(|way| !ways.contains(way)));
        }
        ways
    }

    /// What would have made durable what an operation promised.
    fn way_for_operation(&self, state: &StateFindings, number: u32, op: &Op) -> String {
        let op = format!("operation {number}, {op},");
        let end = self.log.entries.iter().find(|entry| entry.kind == 'E' && entry.operation == Some(number));
        let (Some(end), Some(first)) = (end, state.lost.iter().map(|lost| lost.place).min()) else {
            return self.way_without_loss(&op);
        };
        if first > end.place {
            return format!("not resting what {op} had promised on write {first}, which came after it had returned");
        }
        match self.flush_between(first, end.place) {
            Some(flush) => self.way_for_flush(flush, first),
            None if self.is_fua(first) => {
                format!("a disk that keeps its word: write {first} had FUA, and was lost (--disk {})", self.disk)
            }
            None => format!("a flush behind write {first}, or FUA with it, before {op} returned: there was none"),
        }
    }

    /// A flush came behind a write, which was lost all the same.
    fn way_for_flush(&self, flush: u32, write: u32) -> String {
        match self.disk {
            Disk::Honest => format!("waiting until write {write} was answered before sending the flush at {flush}"),
            _ => format!(
                "a disk that keeps its word: the flush at {flush} came behind write {write} (--disk {})",
                self.disk
            ),
        }
    }

    fn way_without_loss(&self, op: &str) -> String {
        match self.never_happened() {
            Some(never) => format!("a disk that keeps write {} (--disk {})", never.place, self.disk),
            None => format!("writing what it promised before {op} returned: the disk kept all that was written"),
        }
    }

    /// What would have kept the file system whole.
    fn way_for_order(&self, state: &StateFindings) -> String {
        if let Relaxation::Torn { place, .. } = state.state.relaxation {
            return format!("noticing that write {place} is torn, as by a checksum, or not depending on it");
        }
        let Some(first) = state.lost.iter().map(|lost| lost.place).min() else {
            return match self.never_happened() {
                Some(never) => format!("a disk that keeps write {} (--disk {})", never.place, self.disk),
                None => "recovering from what was written so far: the disk kept all of it, in order".into(),
            };
        };
        let lost: BTreeSet<u32> = state.lost.iter().map(|lost| lost.place).collect();
        let position = state.state.position as u32;
        let is_write = |entry: &&LogEntry| "WUD".contains(entry.kind);
        let kept_later = self
            .log
            .entries
            .iter()
            .filter(is_write)
            .find(|entry| entry.place > first && entry.place < position && !lost.contains(&entry.place));
        match kept_later {
            Some(kept) => match self.flush_between(first, kept.place) {
                Some(flush) => self.way_for_flush(flush, first),
                None => format!(
                    "a flush between write {first}, which was lost, and write {}, which came later and was kept",
                    kept.place
                ),
            },
            None => format!("recovering from a crash before write {first}: nothing that came later was kept"),
        }
    }

    /// The first flush behind one place and before another.
    fn flush_between(&self, place: u32, end: u32) -> Option<u32> {
        let between = self.log.entries.iter().filter(|entry| entry.place > place && entry.place < end);
        between.filter(|entry| entry.kind == 'F').map(|entry| entry.place).next()
    }

    fn is_fua(&self, place: u32) -> bool {
        self.entry(place).is_some_and(|entry| entry.kind == 'U')
    }

    fn entry(&self, place: u32) -> Option<&LogEntry> {
        self.log.entries.iter().find(|entry| entry.place == place)
    }

    /// The write that `lose-write:N` takes away, if all that came before it is known.
    pub fn never_happened(&self) -> Option<&LogEntry> {
        let Disk::LoseWrite(number) = self.disk else { return None };
        let writes = self.log.entries.iter().filter(|entry| "WUD".contains(entry.kind));
        writes.filter(|_| self.log.left_out == 0).nth(number as usize - 1)
    }

    /// The writes before the crash that no flush or FUA covered; none if that is not known of all.
    fn pending(&self, state: &StateFindings) -> Vec<&LogEntry> {
        let position = state.state.position.min(self.rules.len());
        let pending: Vec<_> =
            self.rules.pending(position).into_iter().filter_map(|place| self.entry(place as u32)).collect();
        if pending.len() == state.pending as usize { pending } else { Vec::new() }
    }

    fn lost_words(&self, lost: &LostBytes) -> String {
        let bytes = format!("{} bytes at {}", lost.length, lost.offset);
        match self.entry(lost.place) {
            Some(entry) if entry.length != lost.length => format!("{bytes}, of {}", self.write_words(entry)),
            Some(entry) => self.write_words(entry),
            None => format!("write {}, {bytes}", lost.place),
        }
    }

    fn write_words(&self, entry: &LogEntry) -> String {
        let what = if entry.kind == 'D' { "discard" } else { "write" };
        let fua = if entry.kind == 'U' { " with FUA" } else { "" };
        let during = entry.operation.map(|number| format!(", during operation {number}")).unwrap_or_default();
        let holds = self.log.holds.get(&entry.place).map(|name| format!(": {name}")).unwrap_or_default();
        format!("{what} {}{fua}, {} bytes at {}{during}{holds}", entry.place, entry.length, entry.offset)
    }
}

fn run_words(kind: char, count: usize) -> String {
    let (what, fua) = match kind {
        'W' => ("write", ""),
        'U' => ("write", " with FUA"),
        'D' => ("discard", ""),
        _ => ("flush", ""),
    };
    let plural = match (count, what) {
        (1, _) => "",
        (_, "flush") => "es",
        _ => "s",
    };
    format!("{count} {what}{plural}{fua}")
}

fn more_words(count: usize, what: &str) -> String {
    let more = count.saturating_sub(LISTED_MAX);
    if more == 0 { String::new() } else { format!("  {what}      {more} more\n") }
}
