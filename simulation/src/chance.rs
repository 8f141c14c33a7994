//! Numbers that a seed determines.

/// A stream of numbers. Streams with other names have nothing to do with each other, so that what
/// one part of a simulation draws does not change what another one gets.
///
/// The numbers are those of BLAKE3 in counter mode: the same on every machine and in every version.
#[derive(Debug, Clone)]
pub struct Chance {
    key: [u8; 32],
    drawn: u64,
}

/// Parts of a million.
const MILLION: u64 = 1_000_000;

impl Chance {
    /// The stream with a name.
    pub fn new(seed: u64, name: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("crashpoint simulation 2026 chance");
        hasher.update(&seed.to_le_bytes()).update(name.as_bytes());
        Self {
            key: *hasher.finalize().as_bytes(),
            drawn: 0,
        }
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        let block = blake3::keyed_hash(&self.key, &self.drawn.to_le_bytes());
        self.drawn += 1;
        u64::from_le_bytes(block.as_bytes()[..8].try_into().expect("eight of 32 bytes"))
    }

    /// The next number below `end`; 0 if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        let number = self.number();
        ((u128::from(number) * u128::from(end)) >> u64::BITS) as u64
    }

    /// Whether something happens that does `parts` times of a million. It draws only where the
    /// answer is open.
    pub fn happens(&mut self, parts: u32) -> bool {
        match u64::from(parts) {
            0 => false,
            MILLION.. => true,
            parts => self.below(MILLION) < parts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_name_determine_the_numbers_for_ever() {
        let mut chance = Chance::new(7, "link n1 n2");
        let first: Vec<_> = (0..3).map(|_| chance.number()).collect();
        let mut again = Chance::new(7, "link n1 n2");
        assert_eq!(first, [again.number(), again.number(), again.number()]);
        assert_ne!(first[0], Chance::new(8, "link n1 n2").number());
        assert_ne!(first[0], Chance::new(7, "link n1 n3").number());
    }

    #[test]
    fn what_happens_so_many_times_of_a_million_does() {
        let mut chance = Chance::new(1, "loss");
        let happened = (0..10_000).filter(|_| chance.happens(100_000)).count();
        assert!((900..1100).contains(&happened), "{happened}");
        let before = chance.clone().number();
        assert!(!chance.happens(0) && chance.happens(1_000_000));
        assert_eq!(
            chance.number(),
            before,
            "nothing was drawn for what is sure"
        );
        assert!((0..1000).all(|_| chance.below(10) < 10));
        assert_eq!(chance.below(0), 0);
    }
}
