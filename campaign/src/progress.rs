//! How far a sweep is.

use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use tracing::level_filters::LevelFilter;

use crate::output::say;

/// Without a terminal a line of progress is printed this often.
const PROGRESS_EVERY: Duration = Duration::from_secs(30);

/// A bar on a terminal, a line now and then elsewhere, and where something is logged; both on
/// standard error.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    name: String,
    /// What is counted, such as `workloads`.
    unit: &'static str,
    /// Whether the total is a guess until now.
    is_about: Arc<AtomicBool>,
    terminal: bool,
    printed: Instant,
}

impl Progress {
    /// Of something called `name`, with nothing done of `total`, if that is known.
    ///
    /// # Panics
    /// Never: the template is fixed.
    pub fn new(name: &str, unit: &'static str, total: Option<u64>) -> Self {
        let template = if total.is_some() {
            "{prefix} {wide_bar} {pos}/{total} {unit}  {rate}  {left} left  {msg}"
        } else {
            "{prefix} {spinner} {pos} {unit}  {rate}  {msg}"
        };
        Self::of_template(template, name, unit, total)
    }

    /// Of something called `name` of which no items are counted: [`Progress::note`] says how far it is.
    pub fn of_activity(name: &str) -> Self {
        Self::of_template("{prefix} {spinner} {msg}", name, "", None)
    }

    fn of_template(template: &str, name: &str, unit: &'static str, total: Option<u64>) -> Self {
        let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        let is_about = Arc::new(AtomicBool::new(false));
        let style = style(template, unit, Arc::clone(&is_about));
        bar.set_style(style);
        bar.set_prefix(name.to_owned());
        if !unit.is_empty() {
            bar.set_message("no findings");
        }
        // Lines of a log would stand in the middle of the bar, also those of workers.
        let is_logging = LevelFilter::current() != LevelFilter::OFF;
        if is_logging {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let terminal = io::stderr().is_terminal() && !is_logging;
        Self {
            bar,
            name: name.to_owned(),
            unit,
            is_about,
            terminal,
            printed: Instant::now(),
        }
    }

    /// Says what is being done, where it is nothing of what is counted.
    pub fn note(&mut self, message: &str) {
        self.bar.set_message(message.to_owned());
        self.bar.tick();
        self.print(|_| message.to_owned());
    }

    /// Prints something without the bar in between.
    pub fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.suspend(print)
    }

    /// One more item is done, and so many findings there are by now.
    pub fn tick(&mut self, findings: u64, inconclusive: u64) {
        self.show(self.bar.position() + 1, findings, inconclusive);
    }

    /// So many items are done, of `total`.
    pub fn set(&mut self, done: u64, total: u64, findings: u64, inconclusive: u64) {
        self.bar.set_length(total);
        self.show(done, findings, inconclusive);
    }

    /// The same, with whether the total is a guess until now.
    pub fn set_about(&mut self, done: u64, (total, is_about): (u64, bool), counts: (u64, u64)) {
        self.is_about.store(is_about, Ordering::Relaxed);
        self.set(done, total, counts.0, counts.1);
    }

    fn show(&mut self, done: u64, findings: u64, inconclusive: u64) {
        let mut message = match findings {
            0 => "no findings".to_owned(),
            1 => "1 finding".to_owned(),
            more => format!("{more} findings"),
        };
        if inconclusive > 0 {
            message += &format!(", {inconclusive} inconclusive");
        }
        self.bar.set_message(message.clone());
        self.bar.set_position(done);
        self.print(|this| {
            let is_about = this.is_about.load(Ordering::Relaxed);
            let total = match this.bar.length() {
                Some(length) => format!("/{}", total_words(Some(length), is_about)),
                None => String::new(),
            };
            format!("{done}{total} {}, {message}", this.unit)
        });
    }

    /// Prints a line, if it is time for one where there is no bar.
    fn print(&mut self, words: impl FnOnce(&Self) -> String) {
        if !self.terminal && self.printed.elapsed() >= PROGRESS_EVERY {
            self.printed = Instant::now();
            say(&format!("{}: {}", self.name, words(self)));
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// What a bar looks like.
fn style(template: &str, unit: &'static str, is_about: Arc<AtomicBool>) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).expect("a fixed template");
    let style = style.progress_chars("##-");
    let style = style.with_key(
        "unit",
        move |_: &ProgressState, out: &mut dyn fmt::Write| {
            let _ = write!(out, "{unit}");
        },
    );
    let total = move |state: &ProgressState, out: &mut dyn fmt::Write| {
        let words = total_words(state.len(), is_about.load(Ordering::Relaxed));
        let _ = write!(out, "{words}");
    };
    let style = style.with_key("total", total);
    // Over the whole run: items take much the same time, and a guess that jumps helps nobody.
    let style = style.with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
        let _ = write!(out, "{:.0}/s", rate(state));
    });
    style.with_key("left", |state: &ProgressState, out: &mut dyn fmt::Write| {
        let _ = match left(state) {
            Some(left) => write!(out, "{}", HumanDuration(left)),
            None => write!(out, "?"),
        };
    })
}

/// How many items there are in all.
fn total_words(length: Option<u64>, is_about: bool) -> String {
    let about = if is_about { "~" } else { "" };
    length.map_or_else(|| "?".to_owned(), |length| format!("{about}{length}"))
}

/// Items a second, so far.
fn rate(state: &ProgressState) -> f64 {
    state.pos() as f64 / state.elapsed().as_secs_f64().max(1e-3)
}

/// How much longer it takes, once something is done.
fn left(state: &ProgressState) -> Option<Duration> {
    let to_do = state.len()?.checked_sub(state.pos())?;
    (state.pos() > 0).then(|| Duration::from_secs_f64(to_do as f64 / rate(state)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_that_is_a_guess_is_told_as_one() {
        assert_eq!(total_words(Some(1433), true), "~1433");
        assert_eq!(total_words(Some(1406), false), "1406");
    }
}
