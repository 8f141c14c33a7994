//! What a machine's clock makes of the simulation's time.

use crate::chance::Chance;

/// A clock runs so many parts of a million faster or slower.
const MILLION: i128 = 1_000_000;

/// A machine's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clock {
    /// How far its time of day is ahead when the simulation begins, in nanoseconds.
    pub offset_ns: i64,
    /// How much faster it is, in parts of a million: more than minus a million. All that the machine
    /// measures is measured with it.
    pub drift_ppm: i32,
}

impl Clock {
    /// What the clock counts while so much time passes, in nanoseconds.
    pub(crate) fn counted_ns(self, passed_ns: u64) -> u64 {
        let passed_ns = i128::from(passed_ns);
        let counted_ns = passed_ns * self.rate() / MILLION;
        u64::try_from(counted_ns).expect("it runs forward, and hardly faster than time")
    }

    /// How much time has passed when the clock has counted so much: the first moment at which it has.
    pub(crate) fn passed_ns(self, counted_ns: u64) -> u64 {
        let counted = i128::from(counted_ns) * MILLION;
        let passed_ns = (counted + self.rate() - 1) / self.rate();
        u64::try_from(passed_ns).unwrap_or(u64::MAX)
    }

    fn rate(self) -> i128 {
        let rate = MILLION + i128::from(self.drift_ppm);
        assert!(rate > 0, "a clock runs forward");
        rate
    }
}

/// A clock of which the drift may change while it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChangingClock {
    /// How it runs now.
    pub(crate) now: Clock,
    /// When it began to, in the simulation's time, and what it had counted by then.
    since_ns: (u64, u64),
}

impl ChangingClock {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            now: clock,
            since_ns: (0, 0),
        }
    }

    /// What it has counted by a time since the simulation began.
    fn counted_ns(self, now_ns: u64) -> u64 {
        let (since_ns, counted_ns) = self.since_ns;
        counted_ns + self.now.counted_ns(now_ns.saturating_sub(since_ns))
    }

    /// It drifts so from now on: what it has counted stays.
    pub(crate) fn drift(&mut self, drift_ppm: i32, now_ns: u64) {
        self.since_ns = (now_ns, self.counted_ns(now_ns));
        self.now.drift_ppm = drift_ppm;
    }

    /// The time of day that it has, where it is `epoch_ns` when the simulation begins.
    pub(crate) fn time_of_day_ns(self, epoch_ns: u64, now_ns: u64) -> u64 {
        let time_ns = epoch_ns + self.counted_ns(now_ns);
        time_ns.saturating_add_signed(self.now.offset_ns)
    }
}

/// How far the clocks of machines are apart: each is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clocks {
    /// How far one is ahead or behind at most, in nanoseconds.
    pub offset_ns_max: u64,
    /// How much faster or slower it is at most, in parts of a million.
    pub drift_ppm_max: u32,
}

impl Clocks {
    /// The clock of a machine, by its name. Without anything to draw it is exact.
    pub fn of(self, seed: u64, name: &str) -> Clock {
        let mut chance = Chance::new(seed, &format!("clock {name}"));
        let mut within = |most: u64| {
            let drawn = chance.below(2 * most + 1);
            drawn.cast_signed() - most.cast_signed()
        };
        Clock {
            offset_ns: within(self.offset_ns_max),
            drift_ppm: within(self.drift_ppm_max.into()) as i32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_those_of_the_seed_and_within_what_was_asked_for() {
        let clocks = Clocks {
            offset_ns_max: 1000,
            drift_ppm_max: 5,
        };
        let drawn: Vec<_> = (0..100).map(|seed| clocks.of(seed, "n1")).collect();
        assert!(drawn.iter().all(|clock| clock.offset_ns.abs() <= 1000));
        assert!(drawn.iter().all(|clock| clock.drift_ppm.abs() <= 5));
        assert!(
            drawn
                .iter()
                .any(|clock| clock.offset_ns > 0 && clock.drift_ppm < 0)
        );
        assert!(
            drawn
                .iter()
                .any(|clock| clock.offset_ns < 0 && clock.drift_ppm > 0)
        );
        assert_eq!(drawn[7], clocks.of(7, "n1"));
        assert_ne!(drawn[7], clocks.of(7, "n2"));
        assert_eq!(Clocks::default().of(7, "n1"), Clock::default());
    }

    #[test]
    fn a_time_that_a_clock_shows_is_reached_when_it_shows_it_and_not_before() {
        for drift_ppm in [0, 1, -1, 250, -250, 333_333, -333_333, 2_000_000, -999_999] {
            let clock = Clock {
                offset_ns: 0,
                drift_ppm,
            };
            for counted_ns in (0..50).chain([999_999, 1_000_001, 1_700_000_000_123]) {
                let passed_ns = clock.passed_ns(counted_ns);
                assert!(clock.counted_ns(passed_ns) >= counted_ns, "{drift_ppm}");
                let before = passed_ns.checked_sub(1);
                let before = before.map(|before_ns| clock.counted_ns(before_ns));
                assert!(
                    before.is_none_or(|before| before < counted_ns),
                    "{drift_ppm}"
                );
            }
        }
    }

    #[test]
    fn drift_adds_up_from_the_beginning_and_the_offset_does_not() {
        let clock = Clock {
            offset_ns: -7,
            drift_ppm: 100,
        };
        let mut clock = ChangingClock::new(clock);
        assert_eq!(clock.time_of_day_ns(1000, 0), 993);
        assert_eq!(clock.time_of_day_ns(1000, 1_000_000), 1_001_093);
        assert_eq!(clock.time_of_day_ns(1000, 2_000_000), 2_001_193);
        // What it has gained stays when it drifts in another way.
        clock.drift(-500_000, 2_000_000);
        assert_eq!(clock.time_of_day_ns(1000, 2_000_000), 2_001_193);
        assert_eq!(clock.time_of_day_ns(1000, 3_000_000), 2_501_193);
        clock.drift(0, 3_000_000);
        assert_eq!(clock.time_of_day_ns(1000, 4_000_000), 3_501_193);
    }
}
