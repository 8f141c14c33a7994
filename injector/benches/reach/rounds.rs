//! What both halves have in common: on which processors things run, rounds in which all ways take
//! turns, and tables.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How long each measurement takes.
pub(crate) const SLICE: Duration = Duration::from_millis(100);

/// On which processors the programs run, and whoever stands in their way. `None` is any.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) name: &'static str,
    pub(crate) programs: Option<usize>,
    pub(crate) between: Option<usize>,
}

/// All places. There are two processors at least.
pub(crate) fn places() -> Outcome<[Place; 3]> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let is_allowed = |cpu: &usize| allowed.is_set(*cpu).unwrap_or(false);
    let mut allowed = (0..CpuSet::count()).filter(is_allowed);
    let (Some(first), Some(second)) = (allowed.next(), allowed.next()) else {
        return Err("it takes two processors".into());
    };
    let place = |name, programs, between| Place {
        name,
        programs,
        between,
    };
    Ok([
        place("same processor", Some(first), Some(first)),
        place("another processor", Some(first), Some(second)),
        place("not pinned", None, None),
    ])
}

/// Has this thread, and what it starts, run on a processor.
pub(crate) fn pin(processor: Option<usize>) -> nix::Result<()> {
    let mut set = CpuSet::new();
    match processor {
        Some(one) => set.set(one)?,
        // The kernel leaves out those that are not there.
        None => (0..CpuSet::count()).try_for_each(|one| set.set(one))?,
    }
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// A processor as an argument.
pub(crate) fn processor_word(processor: Option<usize>) -> String {
    processor.map_or_else(|| "any".into(), |number| number.to_string())
}

/// The processor of such an argument.
pub(crate) fn processor_of(word: &str) -> Option<usize> {
    word.parse().ok()
}

/// What was measured of one thing: for each way and place the figures of all rounds.
pub(crate) struct Table {
    title: &'static str,
    /// Digits after the point.
    digits: usize,
    rows: Vec<(&'static str, Vec<Vec<f64>>)>,
}

impl Table {
    pub(crate) fn new(title: &'static str, digits: usize, ways: &[&'static str]) -> Self {
        let row = |way: &&'static str| (*way, vec![Vec::new(); 3]);
        Self {
            title,
            digits,
            rows: ways.iter().map(row).collect(),
        }
    }

    pub(crate) fn add(&mut self, way: usize, place: usize, figure: f64) {
        self.rows[way].1[place].push(figure);
    }

    /// As Markdown: the median of each, with the least and the most.
    pub(crate) fn print(&self, places: &[Place]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let names: Vec<_> = places.iter().map(|place| place.name).collect();
        writeln!(out, "\n{}\n", self.title)?;
        writeln!(out, "| | {} |", names.join(" | "))?;
        writeln!(out, "|---|{}", "---|".repeat(names.len()))?;
        for (way, of_places) in &self.rows {
            let cells: Vec<_> = of_places.iter().map(|all| self.cell(all)).collect();
            writeln!(out, "| {way} | {} |", cells.join(" | "))?;
        }
        Ok(())
    }

    fn cell(&self, figures: &[f64]) -> String {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (sorted.first(), sorted.last()) else {
            return "not measured".into();
        };
        let digits = self.digits;
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
    }
}

/// Says where and when it is measured.
pub(crate) fn say_where(rounds: usize) -> Outcome<()> {
    let read = |path| fs::read_to_string(path).map(|text| text.trim().to_owned());
    println!(
        "Linux {}, {} processors, load {} at the start; {rounds} rounds of {} ms each; median (least to most)",
        read("/proc/sys/kernel/osrelease")?,
        std::thread::available_parallelism()?,
        read("/proc/loadavg")?,
        SLICE.as_millis(),
    );
    Ok(())
}
