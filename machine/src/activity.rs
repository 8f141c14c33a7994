//! Tells a process that is slow from one that is stuck.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Nobody in it has wanted the processor for so long: it waits for what never comes.
const IDLE_PATIENCE: Duration = Duration::from_secs(30);

/// It may be busy for so long without an answer. The time in which it was ready to run, and others
/// ran, does not count: on a machine with much to do everything takes longer.
const BUSY_PATIENCE: Duration = Duration::from_secs(240);

/// A look that comes so much later than the one before counts as one that came then: whoever looks was
/// stopped, or the machine was, and most likely so was what is looked at.
const GAP_MAX: Duration = Duration::from_secs(15);

/// What a process and all that it started are seen to do, from one answer to the next.
#[derive(Debug)]
pub struct Activity {
    seen: Instant,
    /// For how long nobody in it has wanted the processor.
    idle: Duration,
    /// How long it has gone on, without the time in which it waited for a processor.
    busy: Duration,
    /// How long each of its threads has waited for one.
    waited: HashMap<u32, Duration>,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            seen: Instant::now(),
            idle: Duration::ZERO,
            busy: Duration::ZERO,
            waited: HashMap::new(),
        }
    }
}

impl Activity {
    /// Looks at it; call it a few times a second. Says since when, and in which way, it is stuck.
    ///
    /// A process that the machine has no time for is runnable, so it is not taken for stuck.
    pub fn look(&mut self, pid: u32) -> Option<String> {
        if self.idle(pid) > IDLE_PATIENCE {
            return Some(format!(
                "nothing in it has moved for {} s",
                IDLE_PATIENCE.as_secs()
            ));
        }
        (self.busy > BUSY_PATIENCE)
            .then(|| format!("it has been busy for {} s", self.busy.as_secs()))
    }

    /// Looks at it, as [`Self::look`] does. Says for how long nobody in it has wanted the
    /// processor.
    pub fn idle(&mut self, pid: u32) -> Duration {
        let family = Family::of(pid);
        self.note(Instant::now(), family);
        self.idle
    }

    /// For how long it has gone on, as far as it was looked at, without the time in which it waited for
    /// a processor.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    fn note(&mut self, now: Instant, family: Family) {
        let passed = (now - self.seen).min(GAP_MAX);
        self.idle += passed;
        if family.wants_processor {
            self.idle = Duration::ZERO;
        }
        let more = |(thread, waited): (&u32, &Duration)| {
            waited.saturating_sub(self.waited.get(thread).copied().unwrap_or_default())
        };
        let waited: Duration = family.waited.iter().map(more).sum();
        self.busy += passed.saturating_sub(waited);
        self.waited = family.waited;
        self.seen = now;
    }
}

/// What is seen of a process and its descendants at one moment.
#[derive(Debug, Default)]
struct Family {
    /// One of their threads runs or is ready to.
    wants_processor: bool,
    /// How long each of their threads has been ready to run while others ran.
    waited: HashMap<u32, Duration>,
}

impl Family {
    fn of(pid: u32) -> Self {
        let mut family = Self::default();
        family.add(pid);
        family
    }

    fn add(&mut self, pid: u32) {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
            return;
        };
        for thread in threads.flatten() {
            let file = |name| std::fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            let stat = file("stat");
            // After the name, which may hold anything: the state (proc_pid_stat(5)).
            let state = stat
                .rsplit_once(") ")
                .and_then(|(_, rest)| rest.chars().next());
            self.wants_processor |= state == Some('R');
            // Nanoseconds on a processor, and waiting for one; kernels without it say nothing
            // (Documentation/scheduler/sched-stats.rst).
            let waited = file("schedstat")
                .split_whitespace()
                .nth(1)
                .and_then(|waited| waited.parse().ok());
            if let (Some(waited), Some(number)) = (
                waited,
                thread
                    .file_name()
                    .to_str()
                    .and_then(|name| name.parse().ok()),
            ) {
                self.waited.insert(number, Duration::from_nanos(waited));
            }
            for child in file("children")
                .split_whitespace()
                .filter_map(|pid| pid.parse().ok())
            {
                self.add(child);
            }
        }
    }
}

/// How long the threads of a process and its descendants have been ready to run while others ran,
/// as far as the kernel tells.
pub fn waited_for_processor(pid: u32) -> Duration {
    Family::of(pid).waited.values().sum()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use nix::libc;

    use super::*;

    fn children(of: &Child) -> Vec<i32> {
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", of.id()))
            .expect("it is there");
        children
            .split_whitespace()
            .map(|pid| pid.parse().expect("a number"))
            .collect()
    }

    /// The number of the system call in which a process sleeps.
    fn sleeps_in(pid: i32) -> Option<i64> {
        std::fs::read_to_string(format!("/proc/{pid}/syscall"))
            .ok()?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    }

    #[test]
    fn who_computes_wants_the_processor_and_who_sleeps_does_not() {
        let run = |script| {
            Command::new("sh")
                .args(["-c", script])
                .stdout(Stdio::null())
                .spawn()
                .expect("a shell")
        };
        let mut busy = run("(while :; do :; done) & wait");
        let mut idle = run("sleep 3000 & wait");
        let waits = [libc::SYS_rt_sigsuspend, libc::SYS_wait4, libc::SYS_waitid];
        let sleeps = || {
            let sleep = children(&idle).first().copied().and_then(sleeps_in)
                == Some(libc::SYS_clock_nanosleep);
            sleep && sleeps_in(idle.id() as i32).is_some_and(|call| waits.contains(&call))
        };
        let deadline = Instant::now() + Duration::from_secs(600);
        while children(&busy).is_empty() || !sleeps() {
            assert!(Instant::now() < deadline, "they do not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        let wants_processor = |child: &Child| Family::of(child.id()).wants_processor;
        let seen = (0..20)
            .map(|_| (wants_processor(&busy), wants_processor(&idle)))
            .collect::<Vec<_>>();
        for shell in [&mut busy, &mut idle] {
            for child in children(shell) {
                let child = nix::unistd::Pid::from_raw(child);
                nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL)
                    .expect("it is ours");
            }
            shell.wait().expect("it ends");
        }
        assert!(seen.iter().all(|(busy, idle)| *busy && !*idle), "{seen:?}");
    }

    #[test]
    fn what_others_had_of_the_processor_is_not_counted_against_it() {
        let mut activity = Activity::default();
        let began = activity.seen;
        let mut note = |at: u64, waited: &[(u32, u64)]| {
            let waited = waited
                .iter()
                .map(|(thread, seconds)| (*thread, Duration::from_secs(*seconds)))
                .collect();
            activity.note(
                began + Duration::from_secs(at),
                Family {
                    wants_processor: true,
                    waited,
                },
            );
            activity.busy.as_secs()
        };
        assert_eq!(note(10, &[]), 10, "a kernel that does not tell");
        assert_eq!(note(20, &[(1, 4)]), 16);
        assert_eq!(note(30, &[(1, 8), (2, 2)]), 20);
        assert_eq!(note(40, &[(2, 2)]), 30, "one has ended");
        assert_eq!(
            note(50, &[(2, 50), (3, 20)]),
            30,
            "no more than all of the time"
        );
    }

    #[test]
    fn what_nobody_looked_at_for_long_is_not_counted_against_it() {
        let mut activity = Activity::default();
        let began = activity.seen;
        let mut note = |at: u64, wants_processor: bool| {
            let family = Family {
                wants_processor,
                ..Family::default()
            };
            activity.note(began + Duration::from_secs(at), family);
            (activity.idle.as_secs(), activity.busy.as_secs())
        };
        assert_eq!(note(1, false), (1, 1));
        assert_eq!(
            note(1801, false),
            (16, 16),
            "we stood still for half an hour"
        );
        assert_eq!(note(1802, false), (17, 17));
        assert_eq!(note(1803, true), (0, 18));
        assert_eq!(note(1804, false), (1, 19));
    }

    #[test]
    fn a_thread_that_waits_for_the_processor_is_seen_to() {
        let waited = || waited_for_processor(std::process::id());
        let deadline = Instant::now() + Duration::from_secs(600);
        let before = waited();
        while waited() <= before {
            assert!(
                Instant::now() < deadline,
                "nobody has waited for a processor: {before:?}"
            );
            std::thread::yield_now();
        }
    }
}
