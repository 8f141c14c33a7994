//! What a plan says of clocks that jump.

use super::parse::{Checked, Name, RawFault, Wrong};

/// Further jumps no clock of a machine.
const SECONDS_MAX: f64 = 1e8;

const NANOS: f64 = 1e9;

/// How far clocks jump, in nanoseconds, if that is the fault; fails if another one has its key.
pub(super) fn jump_ns(raw: &RawFault) -> Checked<Option<i64>> {
    match (*raw.fault.get_ref() == Name::Clock, &raw.by_s) {
        (false, None) => Ok(None),
        (false, Some(by)) => {
            let what = "`by_s` is only for a clock";
            Err(Wrong(by.span(), what.into()))
        }
        (true, None) => {
            let what = "say how far the clock jumps: by_s = 60, or by_s = -60 for back";
            Err(Wrong(raw.fault.span(), what.into()))
        }
        (true, Some(by)) => {
            let seconds = *by.get_ref();
            let by_ns = (seconds * NANOS).round() as i64;
            if by_ns == 0 || !(-SECONDS_MAX..=SECONDS_MAX).contains(&seconds) {
                let what =
                    format!("a clock cannot jump by {seconds} s: up to three years, and not by 0");
                return Err(Wrong(by.span(), what));
            }
            Ok(Some(by_ns))
        }
    }
}

/// As a plan has it.
pub(super) fn seconds(by_ns: i64) -> f64 {
    by_ns as f64 / NANOS
}
