//! A run in words.

use std::fmt::Write;

use brief::counted;

use super::campaign::Summary;
use super::directory::InjectResult;
use super::ran::{Happening, Ran};
use crate::laboratory::Judged;

/// How many lines of what is broken are shown.
const BROKEN_MAX: usize = 4;

/// The first line of a run: its number, and in a word what came of it.
pub fn headline(result: &InjectResult) -> String {
    let what = match &result.ran.judged {
        Judged::Ok => "ok",
        Judged::Broken { .. } => "broken",
        Judged::Inconclusive { .. } => "inconclusive",
    };
    format!("run {}: {what}\n", result.index + 1)
}

/// How many runs of a campaign came to what.
pub fn totals(summary: &Summary) -> String {
    let tried = summary.results.len();
    let of = match summary.wanted {
        Some(wanted) if wanted != tried as u64 => format!(" of {wanted}"),
        _ => String::new(),
    };
    format!(
        "{} broken of {}{of}, {} inconclusive\n",
        summary.broken(),
        counted(tried, "run"),
        summary.inconclusive()
    )
}

/// A line for each thing that happened, with its time and how many operations had been acknowledged,
/// and what came of it.
pub fn timeline(ran: &Ran) -> String {
    let mut text = String::new();
    for event in &ran.events {
        let Some(words) = words(&event.what) else {
            continue;
        };
        let _ = writeln!(
            text,
            "  {:9.3} s  {:6}  {words}",
            event.time_ns as f64 / 1e9,
            event.acknowledged
        );
    }
    let mut row = |name: &str, words: &str| {
        let _ = writeln!(text, "  {name:12}  {words}");
    };
    match &ran.judged {
        Judged::Ok => row("ok", &format!("{} acknowledged", ran.acknowledged)),
        Judged::Inconclusive { why } => row("inconclusive", why),
        Judged::Broken { broken } => {
            for line in broken.iter().take(BROKEN_MAX) {
                row("broken", line);
            }
            if broken.len() > BROKEN_MAX {
                row("", &format!("and {} more", broken.len() - BROKEN_MAX));
            }
        }
    }
    for note in &ran.notes {
        row("note", note);
    }
    text
}

/// What happened, for people; nothing of what they need not know.
fn words(what: &Happening) -> Option<String> {
    Some(match what {
        Happening::InPlace { fault, words } => format!("fault {fault}: {words}"),
        Happening::NotInjected { fault, why } => {
            format!("fault {fault} could not be put in place: {why}")
        }
        Happening::Undone { fault } => format!("fault {fault} has ended"),
        Happening::Role { node, role, more } if more.is_empty() => format!("{node} is {role}"),
        Happening::Role { node, role, more } => format!("{node} is {role} ({more})"),
        Happening::NodeEnded { node, how } => format!("{node} {how} by itself"),
        Happening::Ready { node } => format!("{node} is ready"),
        Happening::NotReady { node, why } => format!("{node} is not ready: {why}"),
        Happening::ClientEnded { client, how } => format!("client {client} {how}"),
        Happening::ProbeFailed { why } => format!("the probe failed: {why}"),
        Happening::Healed => "everything is healed".into(),
        Happening::Progress => "operations are acknowledged again".into(),
        Happening::Checked => return None,
    })
}
