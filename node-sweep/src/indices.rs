//! Which states of a space are visited.

use anyhow::bail;

/// States to visit, and how many they are.
pub(crate) struct Indices {
    /// Their numbers, ascending.
    pub(crate) all: Box<dyn Iterator<Item = u64> + Send>,
    /// How many.
    pub(crate) count: u64,
}

impl Indices {
    /// All of `len` states, or those that `draw` draws if only a `sample` is asked for.
    ///
    /// # Errors
    /// If they are too many.
    pub(crate) fn of(
        len: u64,
        sample: Option<u64>,
        draw: impl FnOnce(u64) -> Vec<u64>,
    ) -> anyhow::Result<Self> {
        Ok(match sample {
            Some(count) => {
                let drawn = draw(count);
                Self {
                    count: drawn.len() as u64,
                    all: Box::new(drawn.into_iter()),
                }
            }
            None if len == u64::MAX => {
                bail!(
                    "there are more states than can be counted: draw some with --sample, or lose less with --lost"
                )
            }
            None => Self {
                count: len,
                all: Box::new(0..len),
            },
        })
    }
}
