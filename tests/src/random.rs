//! Random numbers for tests.

use std::time::SystemTime;

/// Random numbers (SplitMix64) from a seed that is printed; CRASHPOINT_TEST_SEED gives it again.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// From the time, or the seed that the environment names.
    ///
    /// # Panics
    /// If the time is before 1970.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let given = std::env::var("CRASHPOINT_TEST_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let now = || {
            SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .expect("later")
                .subsec_nanos()
                .into()
        };
        let seed = given.unwrap_or_else(now);
        println!("CRASHPOINT_TEST_SEED={seed}");
        Self(seed)
    }

    /// From this seed.
    pub fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// One that is less than `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}
