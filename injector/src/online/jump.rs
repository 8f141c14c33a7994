//! What a plan says of clocks that jump or drift.

use toml::Spanned;

use super::parse::{Checked, Name, RawFault, Wrong};
use super::plan::What;

/// Further jumps no clock of a machine.
const SECONDS_MAX: f64 = 1e8;

const NANOS: f64 = 1e9;

/// More drifts no clock of a machine: it runs forward, also if it drifts anyway.
const DRIFT_MAX: f64 = 0.5;

const MILLION: f64 = 1e6;

/// What becomes of clocks, if that is the fault; fails if another one has its keys.
pub(super) fn clock_fault(raw: &RawFault) -> Checked<Option<What>> {
    let is_clock = *raw.fault.get_ref() == Name::Clock;
    match (is_clock, &raw.by_s, &raw.drift) {
        (false, None, None) => Ok(None),
        (false, Some(by), _) => Err(only_for_clocks(by, "by_s")),
        (false, None, Some(drift)) => Err(only_for_clocks(drift, "drift")),
        (true, None, None) => {
            let what = "say how far the clock jumps: by_s = 60, or by_s = -60 for back; or how much \
                        faster it runs: drift = 0.01";
            Err(Wrong(raw.fault.span(), what.into()))
        }
        (true, Some(_), Some(drift)) => {
            let what = "a clock jumps or drifts: make two faults of them";
            Err(Wrong(drift.span(), what.into()))
        }
        (true, Some(by), None) => jump_ns(by).map(|by_ns| Some(What::Clock(by_ns))),
        (true, None, Some(drift)) => drift_ppm(drift).map(|ppm| Some(What::Drift(ppm))),
    }
}

fn only_for_clocks(given: &Spanned<f64>, key: &str) -> Wrong {
    Wrong(given.span(), format!("`{key}` is only for a clock"))
}

/// How far clocks jump, in nanoseconds.
fn jump_ns(by: &Spanned<f64>) -> Checked<i64> {
    let seconds = *by.get_ref();
    let by_ns = (seconds * NANOS).round() as i64;
    if by_ns == 0 || !(-SECONDS_MAX..=SECONDS_MAX).contains(&seconds) {
        let what = format!("a clock cannot jump by {seconds} s: up to three years, and not by 0");
        return Err(Wrong(by.span(), what));
    }
    Ok(by_ns)
}

/// How much faster clocks run, in parts of a million.
fn drift_ppm(drift: &Spanned<f64>) -> Checked<i32> {
    let share = *drift.get_ref();
    let ppm = (share * MILLION).round() as i32;
    if ppm == 0 || !(-DRIFT_MAX..=DRIFT_MAX).contains(&share) {
        let what = format!(
            "a clock cannot run faster by the share {share}: from -0.5 (half as fast) to 0.5, and by \
             0.000001 at least"
        );
        return Err(Wrong(drift.span(), what));
    }
    Ok(ppm)
}

/// As a plan has it.
pub(super) fn seconds(by_ns: i64) -> f64 {
    by_ns as f64 / NANOS
}

/// The same of a drift.
pub(super) fn share(ppm: i32) -> f64 {
    f64::from(ppm) / MILLION
}
