//! Tells a process that is slow from one that is stuck.

use std::time::{Duration, Instant};

/// Nobody in it has wanted the processor for so long: it waits for what never comes.
const IDLE_PATIENCE: Duration = Duration::from_secs(30);

/// It may be busy for so long without an answer.
const BUSY_PATIENCE: Duration = Duration::from_secs(240);

/// What a process and all that it started are seen to do, from one answer to the next.
#[derive(Debug)]
pub struct Activity {
    since: Instant,
    /// When somebody in it last wanted the processor.
    wanted: Instant,
}

impl Default for Activity {
    fn default() -> Self {
        let now = Instant::now();
        Self { since: now, wanted: now }
    }
}

impl Activity {
    /// Looks at it; call it a few times a second. Says since when, and in which way, it is stuck.
    ///
    /// A process that the machine has no time for is runnable, so it is not taken for stuck.
    pub fn look(&mut self, pid: u32) -> Option<String> {
        let now = Instant::now();
        if wants_processor(pid) {
            self.wanted = now;
        }
        if now - self.wanted > IDLE_PATIENCE {
            return Some(format!("nothing in it has moved for {} s", IDLE_PATIENCE.as_secs()));
        }
        let waited = now - self.since;
        (waited > BUSY_PATIENCE).then(|| format!("it has been busy for {} s with one workload", waited.as_secs()))
    }
}

/// Whether a process, one of its threads or one of its descendants runs or is ready to.
fn wants_processor(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| {
        let file = |name| std::fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let stat = file("stat");
        // Behind the name, which may hold anything: the state (proc_pid_stat(5)).
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        let mut children = file("children").split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>();
        state == Some('R') || children.drain(..).any(wants_processor)
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn who_computes_wants_the_processor_and_who_sleeps_does_not() {
        let run = |script| Command::new("sh").args(["-c", script]).stdout(Stdio::null()).spawn().expect("a shell");
        let mut busy = run("(while :; do :; done) & wait");
        let mut idle = run("sleep 60 & wait");
        std::thread::sleep(Duration::from_millis(300));
        let seen = (0..20).map(|_| (wants_processor(busy.id()), wants_processor(idle.id()))).collect::<Vec<_>>();
        for shell in [&mut busy, &mut idle] {
            for child in std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", shell.id()))
                .expect("it is there")
                .split_whitespace()
            {
                let child = nix::unistd::Pid::from_raw(child.parse().expect("a number"));
                nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL).expect("it is ours");
            }
            shell.wait().expect("it ends");
        }
        assert!(seen.iter().all(|(busy, idle)| *busy && !*idle), "{seen:?}");
    }
}
