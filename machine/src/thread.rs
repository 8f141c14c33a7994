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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::time::Duration;

    use crate::{End, Machine, ThreadBody};

    #[test]
    fn a_thread_reads_and_answers_and_ends_with_its_input() {
        let machine = Machine::Thread(ThreadBody::new(|mut input, mut output| {
            std::io::copy(&mut input, &mut output).expect("copied");
        }));
        assert!(!machine.is_guest() && !machine.has_virtual_time());
        let mut running = machine.start(&["__worker"], &[]).expect("started");
        let mut input = running.take_input();
        assert!(!running.readable(Duration::ZERO));
        input.write_all(b"ping").expect("written");
        let mut answer = [0; 4];
        running.output().read_exact(&mut answer).expect("read");
        assert_eq!(&answer, b"ping");
        assert!(!running.has_ended());
        drop(input);
        assert_eq!(running.end(), End::Process("it broke off".into()));
        assert!(running.has_ended());
    }
}
