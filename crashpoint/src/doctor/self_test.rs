//! The tester is tested: a disk that keeps its word must not be accused, one that ignores
//! flushes must be caught, also if it then loses a single write.

use campaign::Interrupt;
use local_fs::{FileSystem, Variant};
use machine::Machine;
use pace_rules::disk::{Disk, States};
use replayer::{SweepOptions, Verdict, WorkloadResult, sweep};
use workloads::{Workload, parse};

use super::check::Check;

const WORKLOAD: &str = "workload self-test; creat foo; write foo 0 4K; fsync foo; fsync .";

/// What each disk must come to in the states that are visited if `--states` is not given, or in
/// these: with a single write lost that no flush covered. After the workload an honest disk has
/// none.
const KNOWN: [(Disk, Option<&str>, Verdict); 4] = [
    (Disk::Honest, None, Verdict::Clean),
    (Disk::DropFlush, None, Verdict::Finding),
    (Disk::Honest, Some("every-write,reorder:1"), Verdict::Clean),
    (Disk::DropFlush, Some("reorder:1"), Verdict::Finding),
];

/// Runs them there.
pub(super) fn run(
    file_system: &'static FileSystem,
    machine: &Machine,
    interrupt: &Interrupt,
) -> Vec<Check> {
    let variant = Variant::plain(file_system);
    let place = if machine.is_guest() {
        ", in the guest"
    } else {
        ""
    };
    let check = |(disk, states, expected): (Disk, Option<&str>, Verdict)| {
        let words = if expected == Verdict::Clean {
            "not accused"
        } else {
            "caught"
        };
        let found = verdict(&variant, disk, states, machine, interrupt).and_then(|result| {
            if result.verdict() == expected {
                Ok(format!("{words}{place}"))
            } else {
                Err(wrong(&result))
            }
        });
        let states = states
            .map(|states| format!(", {states}"))
            .unwrap_or_default();
        Check::new(
            format!("{} on {disk} disk{states}", file_system.name),
            found,
        )
    };
    KNOWN.into_iter().map(check).collect()
}

fn verdict(
    variant: &Variant,
    disk: Disk,
    states: Option<&str>,
    machine: &Machine,
    interrupt: &Interrupt,
) -> Result<WorkloadResult, String> {
    let workloads = parse(WORKLOAD, "self-test").expect("it is a workload");
    let mut answer = None;
    let mut take = |_: &Workload, result: WorkloadResult| -> replayer::Result<()> {
        answer = Some(result);
        Ok(())
    };
    let states = states.map_or_else(States::default, |states| {
        states.parse().expect("they can be visited")
    });
    let options = SweepOptions {
        disk: disk.into(),
        states,
        machine: machine.clone(),
        ..SweepOptions::default()
    };
    sweep(
        variant,
        &options,
        &mut workloads.into_iter().map(Ok),
        interrupt,
        &mut take,
    )
    .map_err(|error| campaign::one_line(&error))?;
    answer.ok_or_else(|| "interrupted".to_owned())
}

fn wrong(result: &WorkloadResult) -> String {
    let broken = result.broken.iter().flat_map(|state| &state.findings);
    let said: Vec<_> = broken
        .map(|finding| format!("{}: {}", finding.path, finding.what))
        .collect();
    match (&result.inconclusive, said.is_empty()) {
        (Some(why), _) => format!("could not be measured: {why}"),
        (None, true) => {
            "was not caught: do not believe a clean sweep on this machine, and report it".to_owned()
        }
        (None, false) => {
            format!(
                "was accused: do not believe findings on this machine, and report it ({})",
                said.join("; ")
            )
        }
    }
}
