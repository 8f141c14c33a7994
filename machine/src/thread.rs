//! A thread in the place of the program, for tests: whatever starts the program in a machine can
//! be tested without the kernel that the program needs.

use std::fmt;
use std::fs::File;
use std::sync::Arc;

/// What is run instead of the program, with its input and its output. It should end when its input
/// does.
#[derive(Clone)]
pub struct ThreadBody(pub(crate) Arc<dyn Fn(File, File) + Send + Sync>);

impl ThreadBody {
    /// That does this.
    pub fn new(body: impl Fn(File, File) + Send + Sync + 'static) -> Self {
        Self(Arc::new(body))
    }
}

impl fmt::Debug for ThreadBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ThreadBody")
    }
}
