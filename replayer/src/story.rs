//! A finding told in words: what was run, where the power failed, what the disk had kept, and which
//! promise that breaks.

use brief::counted;
use campaign::quoted;
use checker::{Contract, Finding};
use local_fs::Variant;
use pace_rules::disk::{Relaxation, State};
use workloads::{Op, Workload};

use crate::evidence::{Evidence, runs_of};
use crate::result::{Again, Death, LostBytes, StateFindings};

/// So many lost writes are named.
const LOST_LISTED_MAX: usize = 4;

/// A crash state of a workload, and all that is needed to tell of it.
pub struct Story<'a> {
    /// The file system.
    pub variant: &'a Variant,
    /// What names the sources of promises.
    pub contract: Option<Contract>,
    /// What was run.
    pub workload: &'a Workload,
    /// What came of it.
    pub state: &'a StateFindings,
}

impl Story<'_> {
    /// The workload with the crash drawn in, what the disk kept, and what that breaks.
    pub fn text(&self) -> String {
        let disk = format!("  disk      {}\n", state_words(self.state));
        self.workload_text()
            + &self.place_text()
            + &disk
            + &again_text(self.state)
            + &self.promises_text()
    }

    /// The same in full, of what is known of the disk.
    pub fn in_full(&self, evidence: &Evidence<'_>) -> String {
        let mut text = self.workload_with(|number| evidence.asked_by(number));
        text += &format!("  disk      {}\n", disk_words(self.state));
        text += &evidence.fate_text(self.state);
        text += &again_text(self.state);
        text += &self.promises_text();
        for (number, way) in evidence
            .ways_out(self.state, self.workload)
            .iter()
            .enumerate()
        {
            let head = if number == 0 { "prevented" } else { "" };
            text += &format!("  {head:<9} {way}\n");
        }
        text
    }

    fn place_text(&self) -> String {
        self.state
            .place
            .as_ref()
            .map(|place| format!("  crash     {place}\n"))
            .unwrap_or_default()
    }

    fn workload_text(&self) -> String {
        self.workload_with(|_| String::new())
    }

    /// The workload with the crash drawn in, and what there is to say after each operation.
    fn workload_with(&self, after: impl Fn(u32) -> String) -> String {
        let done = self.state.operations_done as usize;
        let mut text = String::new();
        for (number, op) in self.workload.operations().enumerate() {
            let part = if number < self.workload.setup.len() {
                "setup"
            } else {
                "run"
            };
            let crash = match (self.state.under_way, number) {
                (true, number) if number == done => "      <- the power fails while this is done",
                (false, number) if number + 1 == done => "      <- the power fails here",
                _ => "",
            };
            text += &format!("  {part:<9} {number:>3}  {op}{crash}\n");
            let said = after(number as u32);
            if !said.is_empty() {
                text += &format!("                 {said}\n");
            }
        }
        text
    }

    fn promises_text(&self) -> String {
        let mut text = String::new();
        if self.state.more > 0 {
            text += &format!(
                "  likewise  {} of this workload {} the same\n",
                counted(self.state.more, "more state"),
                if self.state.more == 1 {
                    "breaks"
                } else {
                    "break"
                }
            );
        }
        if let Some(repair) = self.variant.file_system.repair {
            text += &format!("  repair    {} ran first\n", repair.program.words());
        }
        for finding in &self.state.findings {
            text += &self.promise_text(finding);
        }
        text
    }

    fn promise_text(&self, finding: &Finding) -> String {
        let operations: Vec<&Op> = self.workload.operations().collect();
        let place = if finding.path.is_empty() {
            String::new()
        } else {
            format!("{}: ", finding.path)
        };
        let mut text = format!("  broken    {place}{}\n", finding.what);
        if let Some(rule) = &finding.rule {
            text += "  because\n";
            for line in rule.derivation.lines() {
                text += &format!("  {line}\n");
            }
        }
        if finding.rule.is_none() {
            text += &format!(
                "  promised  {} ({})\n",
                finding.promise.words(),
                finding.promise.name()
            );
        }
        if let Some(op) = finding
            .promised_by
            .and_then(|number| operations.get(number).map(|op| (number, op)))
        {
            text += &format!("            by operation {}, {}\n", op.0, op.1);
        }
        if let Some(line) = self
            .contract
            .and_then(|contract| contract.line(finding.promise))
        {
            text += &format!("  source    {}\n", line.source);
        }
        text
    }
}

/// How the kernel died, with these lines of its log.
pub fn death_text(workload: &Workload, death: &Death, log: &[String]) -> String {
    let mut text = format!(
        "  workload  {}\n  during    {}\n",
        workload.to_line(),
        death.during
    );
    text += &format!(
        "  broken    the kernel died, or never came back: {}\n",
        death.what
    );
    for line in log {
        text += &format!("  kernel    {line}\n");
    }
    text
}

/// The command that tests a workload again; one that does not end with `-` takes none. Not with
/// echo: some shells' has a mind of its own about
/// backslashes.
pub fn replay_text(workload: &Workload, command: &str) -> String {
    if !command.ends_with(" -") {
        return format!("  replay    {command}\n");
    }
    format!(
        "  replay    printf '%s\\n' {} | {command}\n",
        quoted(&workload.to_line())
    )
}

/// What else it did, before what it tore.
fn lost_and(lost: &[usize]) -> String {
    if lost.is_empty() {
        String::new()
    } else {
        format!("lost {} and ", lost.len())
    }
}

/// So many of the writes that nothing covered.
fn of_pending(part: &str, pending: u32) -> String {
    match pending {
        1 => "the only write".into(),
        all => format!("{part} of the {all} writes"),
    }
}

/// Where the power failed again, in each recovery.
fn again_text(state: &StateFindings) -> String {
    let mut text = String::new();
    for (number, again) in state.again.iter().enumerate() {
        let (when, disk) = again_words(again);
        text += &format!("  again     {when}\n");
        text += &format!("  disk      {disk}\n");
        // What breaks nothing by itself has no log.
        let asked = runs_of(again.log.entries.iter());
        if !asked.is_empty() {
            text += &format!("            the recovery has {asked}\n");
        }
        let which = if number == 0 {
            "the first recovery"
        } else {
            "that recovery"
        };
        text += &format!(
            "            {which}, without this failure, {}\n",
            clean_words(again)
        );
    }
    if !text.is_empty() {
        text += &format!("  state     {}\n", state.address());
    }
    text
}

fn clean_words(again: &Again) -> &'static str {
    if again.clean {
        "breaks nothing"
    } else {
        "is not clean either"
    }
}

/// When the power failed in a recovery, and what the disk did.
fn again_words(again: &Again) -> (String, String) {
    let Again {
        written, writes, ..
    } = again;
    let moment = match written {
        0 => format!(
            "before the first of the {} of the recovery",
            counted(*writes, "write")
        ),
        written => format!("after write {written} of {writes} of the recovery"),
    };
    let when = format!("the power failed again while the file system recovered: {moment}");
    (when, kept_words(&again.state, again.pending, &again.lost))
}

/// All of that in one sentence for each recovery, after what the disk did in the first crash; empty
/// if there was only that.
pub fn again_sentence(state: &StateFindings) -> String {
    let sentence = |again: &Again| {
        let (when, disk) = again_words(again);
        format!(
            "; {when}; then the disk {disk} (without this failure the recovery {})",
            clean_words(again)
        )
    };
    state.again.iter().map(sentence).collect()
}

/// What the disk did, without a list of what it lost.
fn disk_words(state: &StateFindings) -> String {
    let StateFindings { pending, lost, .. } = state;
    match &state.state.relaxation {
        Relaxation::Prefix => "had kept everything that was written so far".into(),
        Relaxation::Flushed => {
            format!("had lost all writes that no flush or FUA covered: {pending}")
        }
        Relaxation::Lost(_) => format!(
            "had lost {} that no flush or FUA covered",
            of_pending(&lost.len().to_string(), *pending)
        ),
        Relaxation::Torn { lost, .. } if state.state.in_flight().is_some() => {
            format!(
                "had {}torn the write with FUA that was in flight",
                lost_and(lost)
            )
        }
        Relaxation::Torn { lost, .. } => {
            format!(
                "had {}torn {} that no flush or FUA covered",
                lost_and(lost),
                of_pending("one", *pending)
            )
        }
    }
}

/// What the disk did, in words: after "the disk".
pub fn state_words(state: &StateFindings) -> String {
    kept_words(&state.state, state.pending, &state.lost)
}

/// The first that were lost, and a sign that there are more.
fn listed_words(lost: &[LostBytes]) -> (String, &'static str) {
    let bytes = |lost: &LostBytes| format!("{} at {}", counted(lost.length, "byte"), lost.offset);
    let listed = lost.iter().take(LOST_LISTED_MAX).map(bytes);
    let rest = if lost.len() > LOST_LISTED_MAX {
        ", …"
    } else {
        ""
    };
    (listed.collect::<Vec<_>>().join(", "), rest)
}

fn kept_words(state: &State, pending: u32, lost: &[LostBytes]) -> String {
    let (listed, rest) = listed_words(lost);
    match &state.relaxation {
        Relaxation::Prefix => "had kept everything that was written so far".into(),
        Relaxation::Flushed if lost.is_empty() => {
            "had kept only what a flush or FUA covered".into()
        }
        Relaxation::Flushed => {
            format!(
                "had kept only what a flush or FUA covered, and lost {}: {listed}{rest}",
                counted(pending, "write")
            )
        }
        Relaxation::Lost(_) => {
            format!(
                "had lost {} that no flush or FUA covered: {listed}{rest}",
                of_pending(&lost.len().to_string(), pending)
            )
        }
        Relaxation::Torn { lost: others, .. } if state.in_flight().is_some() => {
            let (others, of_it) = (
                lost_and(others),
                if others.is_empty() { " of it" } else { "" },
            );
            format!(
                "had {others}torn the write with FUA that was in flight, and lost {listed}{rest}{of_it}"
            )
        }
        Relaxation::Torn { lost: others, .. } if others.is_empty() => {
            format!(
                "had torn {} that no flush or FUA covered, and lost {listed} of it",
                of_pending("one", pending)
            )
        }
        Relaxation::Torn { lost: others, .. } => {
            let others = lost_and(others);
            format!(
                "had {others}torn {} that no flush or FUA covered: {listed}{rest}",
                of_pending("one", pending)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_one_write_that_nothing_covered_it_is_said_that_it_is_the_only_one() {
        assert_eq!(of_pending("1", 1), "the only write");
        assert_eq!(of_pending("1", 3), "1 of the 3 writes");
        assert_eq!(of_pending("one", 2), "one of the 2 writes");
    }
}
