//! The tester is tested: a disk that keeps its word must not be accused, one that ignores
//! flushes must be caught.

use local_fs::{FileSystem, Variant};
use pace_rules::disk::Disk;
use replayer::{Interrupt, SweepOptions, Verdict, WorkloadResult, sweep};
use workloads::{Workload, parse};

use super::check::Check;

const WORKLOAD: &str = "workload self-test; creat foo; write foo 0 4K; fsync foo; fsync .";

/// What each disk must come to.
const KNOWN: [(Disk, Verdict, &str); 2] =
    [(Disk::Honest, Verdict::Clean, "not accused"), (Disk::DropFlush, Verdict::Finding, "caught")];

/// Runs them.
pub(super) fn run(file_system: &'static FileSystem, interrupt: &Interrupt) -> Vec<Check> {
    let variant = Variant::plain(file_system);
    let check = |(disk, expected, words): (Disk, Verdict, &str)| {
        let found = verdict(&variant, disk, interrupt)
            .and_then(|result| if result.verdict() == expected { Ok(words.to_owned()) } else { Err(wrong(&result)) });
        Check::new(format!("{} on {disk} disk", file_system.name), found)
    };
    KNOWN.into_iter().map(check).collect()
}

fn verdict(variant: &Variant, disk: Disk, interrupt: &Interrupt) -> Result<WorkloadResult, String> {
    let workloads = parse(WORKLOAD, "self-test").expect("it is a workload");
    let mut answer = None;
    let mut take = |_: &Workload, result: WorkloadResult| -> anyhow::Result<()> {
        answer = Some(result);
        Ok(())
    };
    let options = SweepOptions { disk: disk.into(), ..SweepOptions::default() };
    sweep(variant, &options, &mut workloads.into_iter().map(Ok), interrupt, &mut take)
        .map_err(|error| format!("{error:#}"))?;
    answer.ok_or_else(|| "interrupted".to_owned())
}

fn wrong(result: &WorkloadResult) -> String {
    let broken = result.broken.iter().flat_map(|state| &state.findings);
    let said: Vec<_> = broken.map(|finding| format!("{}: {}", finding.path, finding.what)).collect();
    match (&result.not_measured, said.is_empty()) {
        (Some(why), _) => format!("could not be measured: {why}"),
        (None, true) => "was not caught: do not believe a clean sweep on this machine, and report it".to_owned(),
        (None, false) => {
            format!("was accused: do not believe findings on this machine, and report it ({})", said.join("; "))
        }
    }
}
