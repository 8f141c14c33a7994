//! How far a sweep is.

use std::fmt;
use std::io::{self, IsTerminal};
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
            "{prefix} {wide_bar} {pos}/{len}  {rate}  {left} left  {msg}"
        } else {
            "{prefix} {spinner} {pos}  {rate}  {msg}"
        };
        Self::of_template(template, name, unit, total)
    }

    /// Of something called `name` of which no items are counted: [`Progress::note`] says how far it is.
    pub fn of_activity(name: &str) -> Self {
        Self::of_template("{prefix} {spinner} {msg}", name, "", None)
    }

    fn of_template(template: &str, name: &str, unit: &'static str, total: Option<u64>) -> Self {
        let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        let style = ProgressStyle::with_template(template)
            .expect("a fixed template")
            .progress_chars("##-");
        // Over the whole run: items take much the same time, and a guess that jumps helps nobody.
        let style = style
            .with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
                let _ = write!(out, "{:.0}/s", rate(state));
            })
            .with_key("left", |state: &ProgressState, out: &mut dyn fmt::Write| {
                let _ = match left(state) {
                    Some(left) => write!(out, "{}", HumanDuration(left)),
                    None => write!(out, "?"),
                };
            });
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
            let total = this
                .bar
                .length()
                .map(|total| format!("/{total}"))
                .unwrap_or_default();
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

/// Items a second, so far.
fn rate(state: &ProgressState) -> f64 {
    state.pos() as f64 / state.elapsed().as_secs_f64().max(1e-3)
}

/// How much longer it takes, once something is done.
fn left(state: &ProgressState) -> Option<Duration> {
    let to_do = state.len()?.checked_sub(state.pos())?;
    (state.pos() > 0).then(|| Duration::from_secs_f64(to_do as f64 / rate(state)))
}
