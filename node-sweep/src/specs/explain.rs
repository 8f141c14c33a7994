//! Why rules say of a finding what they say, and its facts in a file.

use std::fs;
use std::path::{Path, PathBuf};

use datalog::Database;
use datalog::Error::{NoEnd, TooLarge, TooMany};
use specification::Examined;
use trace_store::Trace;

use super::events::Runs;
use super::examine::filled;
use super::{Specs, examine};
use crate::again::make_finding_again;
use crate::check::Complaint;
use crate::error::{Context as _, Error, Result};
use crate::finding::Finding;
use crate::request::Request;
use crate::states::CrashState;

/// The directory of the facts of findings, in one of results.
pub const FACTS_FOLDER: &str = "facts";

/// Adds to findings why rules say what they say.
///
/// # Errors
/// If a state cannot be made again, or its facts not be told.
pub(crate) fn explain(trace: &Trace, request: &Request, findings: &mut [Finding]) -> Result<()> {
    let of_rules =
        |finding: &&mut Finding| finding.complaint.of_rules > 0 && !finding.level().is_of_disks();
    let mut findings = findings.iter_mut().filter(of_rules).peekable();
    if findings.peek().is_none() {
        return Ok(());
    }
    let specs = Specs::of(&request.specifications)?;
    let runs = Runs::of(trace, &specs);
    for finding in findings {
        let state = make_finding_again(trace, request, finding)?;
        finding.derivations = derivations((&specs, &runs), &state, &finding.complaint)?;
    }
    Ok(())
}

/// The same of a finding of this state.
///
/// # Errors
/// If the facts of the state cannot be told.
pub(crate) fn explain_state(
    trace: &Trace,
    request: &Request,
    state: &CrashState,
    complaint: &Complaint,
) -> Result<Vec<String>> {
    if complaint.of_rules == 0 {
        return Ok(Vec::new());
    }
    let specs = Specs::of(&request.specifications)?;
    derivations((&specs, &Runs::of(trace, &specs)), state, complaint)
}

fn derivations(
    (specs, runs): (&Specs, &Runs),
    state: &CrashState,
    complaint: &Complaint,
) -> Result<Vec<String>> {
    let mut database = filled((specs, runs), state, complaint.of_check())?;
    derived(specs, &mut database, complaint)
}

/// Why rules say what is in this complaint of a state whose facts are in a database.
pub(super) fn derived(
    specs: &Specs,
    database: &mut Database,
    complaint: &Complaint,
) -> Result<Vec<String>> {
    let mut examined = Examined::default();
    for (name, program) in &specs.programs {
        let evaluated = database.evaluate(program);
        match evaluated.and_then(|()| examined.add(name, program, database)) {
            // What one cannot say, it has not said of the state either.
            Ok(()) | Err(NoEnd { .. } | TooMany { .. } | TooLarge { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let derivations = examined.violated.into_iter().filter_map(|violated| {
        let words = format!("{}: {}", violated.specification, violated.fact);
        complaint
            .words
            .contains(&words)
            .then_some(violated.derivation)
    });
    Ok(derivations.collect())
}

/// The facts of a finding of the sweep in a directory, in a file there that stays; and whether not all calls
/// were recorded, so that what is absent may have been done.
///
/// # Errors
/// If the state cannot be made again, or the file cannot be written.
pub fn facts_of(
    directory: &Path,
    trace: &Trace,
    request: &Request,
    finding: &Finding,
) -> Result<(Database, bool)> {
    let number = finding.number;
    if finding.level().is_of_disks() {
        return Err(Error::NoFacts(number));
    }
    let state = make_finding_again(trace, request, finding)?;
    if state.past.is_none() {
        return Err(Error::NoPast);
    }
    let folder = directory.join(FACTS_FOLDER);
    fs::create_dir_all(&folder).doing(|| format!("create {}", folder.display()))?;
    let specs = Specs::everything();
    let runs = Runs::of(trace, &specs);
    let path = path_of(&folder, number, &state.key);
    let found = finding.complaint.of_check();
    let is_partial = runs.of_past(state.past.as_deref()).is_partial;
    let database = examine::kept(&path, (&specs, &runs), &state, found)?;
    Ok((database, is_partial))
}

/// A finding may have another number when the sweep was continued.
fn path_of(folder: &Path, number: usize, key: &[u8; 32]) -> PathBuf {
    let key = blake3::Hash::from_bytes(*key).to_hex();
    folder.join(format!("{number}-{}.sqlite", &key[..12]))
}
