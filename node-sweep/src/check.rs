//! Checks: commands that look at a crash state and say what they think of it.
//!
//! What a check prints on standard output is its verdict: a line `ok`, or lines `broken WORDS`. All
//! else is talk. One that says neither, hangs, or ends with another status than 0 or 1 has decided
//! nothing, and the state is inconclusive: that is no pass, and accuses nobody.
//!
//! One that dies of what a processor or its runtime refuses has decided: it opened the undamaged
//! directory before the sweep without that, so what it read of this state is beyond what the program
//! under test takes. That is no other case than a program that says it cannot open its files.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use campaign::Interrupt;
use cluster::died_of;
use machine::{Logged, OtherBoot};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// How often it is looked whether somebody interrupts.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A check may say so much about a state, in bytes. The rest is not read: if nothing is broken so far, it
/// might be there.
const SAID_MAX: u64 = 1 << 20;

/// What a check is and how long it may take.
#[derive(Debug, Clone)]
pub struct Check {
    /// How it is started.
    pub command: CheckCommand,
    /// It may take so long for one state.
    pub limit: Duration,
    /// What is added to its environment.
    pub environment: Vec<(String, OsString)>,
    /// Where it is started, if that is not where we are.
    pub working_directory: Option<PathBuf>,
    /// Whoever interrupts does not wait for it.
    pub interrupt: Interrupt,
}

/// How long a check is waited for.
#[derive(Debug, Clone, Copy)]
struct Patience<'a> {
    deadline: Instant,
    interrupt: &'a Interrupt,
}

impl Check {
    /// A command that is started where the check is, and as that is, on the state in a directory.
    /// `{dir}` and `{acks}` in its words stand for what they stand for there.
    pub fn command(&self, words: &str, directory: &Path, acks: &Path) -> Command {
        let words = words
            .replace("{dir}", &campaign::quoted(&directory.to_string_lossy()))
            .replace("{acks}", &campaign::quoted(&acks.to_string_lossy()));
        shell(&words, self)
    }

    /// For one state, from now on.
    fn patience(&self) -> Patience<'_> {
        Patience {
            deadline: Instant::now() + self.limit,
            interrupt: &self.interrupt,
        }
    }

    /// Why it was not waited for any longer.
    fn too_long(&self) -> Verdict {
        if self.interrupt.requested() {
            return Verdict::Inconclusive("the check was interrupted".into());
        }
        Verdict::Inconclusive(format!(
            "the check took longer than {} s",
            self.limit.as_secs_f64()
        ))
    }
}

/// A check as the command line names it: words for a shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckCommand {
    /// Started for each state; `{dir}` stands for its directory, `{acks}` for the file of
    /// acknowledgements.
    Once(String),
    /// Started once. It reads a line `DIR<TAB>ACKS` for each state and answers with the verdict's
    /// lines and a line `end`.
    Serve(String),
}

impl CheckCommand {
    /// Its words.
    pub fn words(&self) -> &str {
        match self {
            Self::Once(words) | Self::Serve(words) => words,
        }
    }
}

/// What a check said of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is as it should be.
    Ok,
    /// It is not.
    Broken(Complaint),
    /// The check did not decide, and this is why.
    Inconclusive(String),
}

/// What is broken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complaint {
    /// In the words of the check, a line each.
    #[serde(rename = "broken")]
    pub words: Vec<String>,
    /// How the log ends of the node that it is about, if it is about one. That helps, and may be
    /// another for states that are alike.
    pub log: Option<String>,
    /// How often the state was looked at until it had been found so often enough, if it was not so
    /// each time.
    pub tries: Option<u32>,
    /// How often it had been found so then; twice if that is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<u32>,
    /// If the state was not found so each time: how often the check was asked of what the run left
    /// without a crash, and always said `ok`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok_without_crash: Option<u32>,
    /// So many of the words, the last ones, are of specifications.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub of_rules: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
pub(crate) fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Complaint {
    /// The same with what specifications say as well.
    pub(crate) fn with_rules(mut self, words: Vec<String>) -> Self {
        self.of_rules = words.len();
        self.words.extend(words);
        self
    }

    /// What the check itself said.
    pub(crate) fn of_check(&self) -> &[String] {
        &self.words[..self.words.len().saturating_sub(self.of_rules)]
    }

    /// Whether specifications say it, and no check.
    pub(crate) fn is_of_rules(&self) -> bool {
        self.of_rules > 0 && self.of_check().is_empty()
    }
}

impl From<Vec<String>> for Complaint {
    fn from(words: Vec<String>) -> Self {
        Self {
            words,
            ..Self::default()
        }
    }
}

impl From<cluster::Verdict> for Verdict {
    fn from(verdict: cluster::Verdict) -> Self {
        match verdict {
            cluster::Verdict::Ok => Self::Ok,
            cluster::Verdict::Broken(words) => Self::Broken(words.into()),
            cluster::Verdict::Inconclusive(why) => Self::Inconclusive(why),
        }
    }
}

impl Verdict {
    /// That of what a check printed; `success` is whether it ended with status 0, or goes on
    /// running.
    fn of(said: &[u8], success: bool) -> Self {
        let said = String::from_utf8_lossy(said);
        cluster::verdict(&said.lines().collect::<Vec<_>>(), success).into()
    }

    /// The same of the beginning of what a check printed.
    fn of_beginning(said: &[u8]) -> Self {
        match Self::of(said, true) {
            Self::Ok | Self::Inconclusive(_) => {
                let mebibytes = SAID_MAX >> 20;
                Self::Inconclusive(format!("the check said more than {mebibytes} MiB"))
            }
            broken @ Self::Broken(_) => broken,
        }
    }
}

/// Runs a check for one state after the other.
#[derive(Debug)]
pub struct Checker {
    check: Check,
    /// Of one that keeps running.
    server: Option<Server>,
    /// Where it runs, if that is not this boot of the machine. The boot ends only after we have
    /// waited for all that we started in it, so it is dropped last.
    boot: Option<Arc<OtherBoot>>,
}

impl Checker {
    /// Nothing is started before there is a state.
    pub fn new(check: Check) -> Self {
        Self {
            check,
            server: None,
            boot: None,
        }
    }

    /// Has what is started from now on run in another boot of the machine.
    pub(crate) fn run_in(&mut self, boot: Arc<OtherBoot>) {
        self.boot = Some(boot);
    }

    /// Has the state in `directory` looked at, with the file of what was acknowledged.
    ///
    /// # Errors
    /// If the check cannot be started at all, or this machine is short of something.
    pub fn judge(&mut self, directory: &Path, acks: &Path) -> io::Result<Verdict> {
        match &self.check.command {
            CheckCommand::Once(words) => {
                self.judge_once(self.check.command(words, directory, acks))
            }
            CheckCommand::Serve(words) => {
                let words = words.clone();
                self.judge_served(&words, directory, acks)
            }
        }
    }

    fn judge_once(&self, mut command: Command) -> io::Result<Verdict> {
        let (mut said, mut errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(errors.try_clone()?);
        let mut group = Group::start(&mut command, self.boot.as_deref())?;
        let Some(status) = group.wait(self.check.patience())? else {
            return Ok(self.check.too_long());
        };
        drop(group);
        if !matches!(status.code(), Some(0 | 1)) {
            return Ok(ended(status, &mut errors));
        }
        let beginning = content(&mut said)?;
        if said.metadata()?.len() > SAID_MAX {
            return Ok(Verdict::of_beginning(&beginning));
        }
        Ok(Verdict::of(&beginning, status.success()))
    }

    fn judge_served(&mut self, words: &str, directory: &Path, acks: &Path) -> io::Result<Verdict> {
        // What it says late would be taken for what it says of the next state.
        if self.server.as_ref().is_some_and(Server::has_more) {
            self.server = None;
        }
        let server = match &mut self.server {
            Some(server) => server,
            none => none.insert(Server::start(
                &mut shell(words, &self.check),
                self.boot.as_deref(),
            )?),
        };
        let request = format!("{}\t{}\n", directory.display(), acks.display());
        match server.ask(request.as_bytes(), self.check.patience())? {
            Answer::Said(said) => {
                let verdict = said.strip_suffix(END).unwrap_or(&said);
                Ok(Verdict::of(verdict, true))
            }
            Answer::Hung => {
                self.server = None;
                Ok(self.check.too_long())
            }
            Answer::TooMuch(beginning) => {
                self.server = None;
                Ok(Verdict::of_beginning(&beginning))
            }
            Answer::Ended => {
                let server = self.server.take().expect("it is there");
                server.closed(self.check.patience())
            }
        }
    }
}

/// A check that keeps running.
#[derive(Debug)]
struct Server {
    group: Group,
    requests: ChildStdin,
    said: ChildStdout,
    /// It has come with the answer.
    said_more: bool,
    errors: File,
}

/// The line after the lines of an answer.
const END: &[u8] = b"end\n";

/// The place after that line, if it is there.
fn after_end(said: &[u8]) -> Option<usize> {
    let mut end = 0;
    said.split_inclusive(|byte| *byte == b'\n')
        .find_map(|line| {
            end += line.len();
            (line == END).then_some(end)
        })
}

enum Answer {
    Said(Vec<u8>),
    /// It says more than is read; this is the beginning.
    TooMuch(Vec<u8>),
    Hung,
    Ended,
}

impl Server {
    fn start(command: &mut Command, boot: Option<&OtherBoot>) -> io::Result<Self> {
        let errors = tempfile::tempfile()?;
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone()?);
        let mut group = Group::start(command, boot)?;
        let requests = group.child.stdin.take().expect("it is piped");
        let said = group.child.stdout.take().expect("it is piped");
        Ok(Self {
            group,
            requests,
            said,
            said_more: false,
            errors,
        })
    }

    /// What it says that it has closed its output, which most do by ending.
    fn closed(mut self, patience: Patience<'_>) -> io::Result<Verdict> {
        let status = self.group.wait(patience)?;
        let how = status.map(|status| ended(status, &mut self.errors));
        let closed = || Verdict::Inconclusive("the check closed its output".into());
        Ok(how.unwrap_or_else(closed))
    }

    /// Whether it has said something after its answer.
    fn has_more(&self) -> bool {
        self.said_more || is_readable(&self.said, Duration::ZERO).unwrap_or(true)
    }

    fn ask(&mut self, request: &[u8], patience: Patience<'_>) -> io::Result<Answer> {
        let line = String::from_utf8_lossy(request);
        tracing::debug!(
            pid = self.group.child.id(),
            line = line.trim_end(),
            "asked the check"
        );
        // A line fits into an empty pipe.
        if self.requests.write_all(request).is_err() {
            return Ok(Answer::Ended);
        }
        let mut said = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            if !readable(&self.said, patience)? {
                return Ok(Answer::Hung);
            }
            let count = self.said.read(&mut buffer)?;
            if count == 0 {
                return Ok(Answer::Ended);
            }
            said.extend_from_slice(&buffer[..count]);
            if let Some(end) = after_end(&said) {
                self.said_more = end < said.len();
                said.truncate(end);
                // What it said on standard error of this state tells nothing of the next ones.
                self.errors.set_len(0)?;
                self.errors.rewind()?;
                return Ok(Answer::Said(said));
            }
            if said.len() as u64 > SAID_MAX {
                return Ok(Answer::TooMuch(said));
            }
        }
    }
}

/// A process and all that it starts, which end when this is dropped.
#[derive(Debug)]
struct Group {
    child: Child,
    is_reaped: bool,
}

impl Group {
    fn start(command: &mut Command, boot: Option<&OtherBoot>) -> io::Result<Self> {
        command.process_group(0);
        let child = if let Some(boot) = boot {
            boot.spawn(command)?
        } else {
            local_fs::dies_with_thread(command);
            command.spawn_logged()?
        };
        Ok(Self {
            child,
            is_reaped: false,
        })
    }

    /// Waits for the first process of the group; none if that takes too long.
    fn wait(&mut self, patience: Patience<'_>) -> io::Result<Option<ExitStatus>> {
        let ended = machine::open_process(Pid::from_raw(self.child.id() as i32))?;
        if !readable(&ended, patience)? {
            return Ok(None);
        }
        // While it is not reaped no other group can have its number.
        self.kill();
        self.is_reaped = true;
        self.child.wait().map(Some)
    }

    fn kill(&self) {
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.kill();
            let _ = self.child.wait();
        }
    }
}

fn shell(words: &str, check: &Check) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .arg("-c")
        .arg(words)
        .envs(check.environment.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = &check.working_directory {
        command.current_dir(directory);
    }
    command
}

/// Whether there is something to read, or nothing any more, before the patience is over.
fn readable(from: &impl AsFd, patience: Patience<'_>) -> io::Result<bool> {
    loop {
        let left = patience.deadline.saturating_duration_since(Instant::now());
        if is_readable(from, left.min(LOOK_EVERY))? {
            return Ok(true);
        }
        if Instant::now() >= patience.deadline || patience.interrupt.requested() {
            return Ok(false);
        }
    }
}

/// The same within a short time.
fn is_readable(from: &impl AsFd, within: Duration) -> io::Result<bool> {
    // Rounded up, so that it is over when poll says so.
    let millis = i32::try_from(within.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
    let mut polled = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
    match poll(
        &mut polled,
        PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX),
    ) {
        Err(nix::errno::Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
        Ok(count) => Ok(count > 0),
    }
}

fn content(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(SAID_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What it says of a state that a check ended like this: that the state killed it, or how it ended,
/// with the last line of what it said about that.
fn ended(status: ExitStatus, errors: &mut File) -> Verdict {
    let errors = content(errors).unwrap_or_default();
    let errors = String::from_utf8_lossy(&errors);
    let mut lines = errors
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    if let Some(cause) = died_of(status, &errors) {
        return Verdict::Broken(Complaint {
            words: vec![format!("the check died of {cause}")],
            // Addresses in it are others each time.
            log: lines.next().map(str::to_owned),
            ..Complaint::default()
        });
    }
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("the check ended with status {code}"),
        (None, signal) => {
            let signal = signal.and_then(|signal| Signal::try_from(signal).ok());
            let signal = signal.map_or("a signal", Signal::as_str);
            format!("the check was ended by {signal}")
        }
    };
    Verdict::Inconclusive(match lines.next_back() {
        Some(line) => format!("{how}: {line}"),
        None => how,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only ends what would hang.
    const PATIENCE: Duration = Duration::from_secs(600);

    fn checker(command: CheckCommand) -> Checker {
        Checker::new(Check {
            command,
            limit: PATIENCE,
            environment: Vec::new(),
            working_directory: None,
            interrupt: Interrupt::default(),
        })
    }

    fn once(words: &str) -> Verdict {
        let mut checker = checker(CheckCommand::Once(words.into()));
        checker
            .judge(Path::new("/some/state"), Path::new("/some/acks"))
            .expect("it runs")
    }

    fn is_open(verdict: &Verdict, words: &str) -> bool {
        matches!(verdict, Verdict::Inconclusive(why) if why.contains(words))
    }

    #[test]
    fn only_a_check_that_says_so_and_ends_well_passes_a_state() {
        assert_eq!(once("echo hello; echo ok"), Verdict::Ok);
        for (words, why) in [
            ("true", "no verdict"),
            ("echo ok; exit 3", "status 3"),
            ("echo ok; exit 1", "status 1"),
            ("echo okay", "no verdict"),
            ("echo ok; kill -KILL $$", "SIGKILL"),
            ("echo 'panic: no verdict' >&2; exit 2", "status 2: panic"),
            ("echo broken x; echo why >&2; exit 4", "status 4: why"),
            ("/does/not/exist", "status 127"),
        ] {
            let verdict = once(words);
            assert!(is_open(&verdict, why), "{words}: {verdict:?}");
        }
    }

    #[test]
    fn a_check_that_keeps_running_is_quoted_without_the_end_of_its_answer() {
        let mut checker = checker(CheckCommand::Serve("read line; echo what; echo end".into()));
        let verdict = checker.judge(Path::new("/some/state"), Path::new("/some/acks"));
        let verdict = verdict.expect("it runs");
        assert!(is_open(&verdict, "printed is `what`"), "{verdict:?}");
    }

    #[test]
    fn a_check_that_says_too_much_passes_no_state() {
        let much = "head -c 2000000 /dev/zero | tr '\\0' '\\n'";
        let words = "the check said more than 1 MiB";
        let verdict = once(&format!("echo ok; {much}; echo broken row 3"));
        assert!(is_open(&verdict, words), "{verdict:?}");
        let early = Verdict::Broken(vec!["row 3".into()].into());
        assert_eq!(once(&format!("echo broken row 3; {much}")), early);
        let served = |words: &str| {
            let words = format!("read line; {words}; {much}; echo end; read line");
            let mut checker = checker(CheckCommand::Serve(words));
            let verdict = checker.judge(Path::new("/some/state"), Path::new("/some/acks"));
            verdict.expect("it runs")
        };
        let verdict = served("echo ok");
        assert!(is_open(&verdict, words), "{verdict:?}");
        assert_eq!(served("echo broken row 3"), early);
    }

    #[test]
    fn a_state_that_kills_its_check_is_broken() {
        let dies = |command: CheckCommand| {
            let mut checker = checker(command);
            let verdict = checker.judge(Path::new("/some/state"), Path::new("/some/acks"));
            match verdict.expect("it runs") {
                Verdict::Broken(complaint) => (complaint.words.join("; "), complaint.log),
                other => panic!("{other:?}"),
            }
        };
        let said = |words: &str, log: &str| (words.to_owned(), Some(log.to_owned()));
        let killed = "echo page 7 >&2; echo ok; kill -BUS $$";
        let of_go = "echo 'fatal error: fault' >&2; echo '[signal SIGBUS]' >&2; exit 2";
        for (words, expected) in [
            (
                killed.to_owned(),
                said("the check died of SIGBUS", "page 7"),
            ),
            (
                format!("({killed}); exit $?"),
                said("the check died of SIGBUS", "page 7"),
            ),
            (
                of_go.to_owned(),
                said("the check died of a fault in Go", "fatal error: fault"),
            ),
        ] {
            assert_eq!(dies(CheckCommand::Once(words)), expected);
        }
        let served = CheckCommand::Serve("read line; kill -SEGV $$".into());
        assert_eq!(dies(served), ("the check died of SIGSEGV".to_owned(), None));
    }

    #[test]
    fn broken_is_broken_whatever_else_is_said() {
        let broken = |words: &[&str]| {
            Verdict::Broken(
                words
                    .iter()
                    .map(|&words| words.to_owned())
                    .collect::<Vec<_>>()
                    .into(),
            )
        };
        assert_eq!(
            once("echo ok; echo broken row 3 is lost; echo talk; echo broken; exit 1"),
            broken(&["row 3 is lost", "broken"])
        );
        assert_eq!(
            once("echo broken {dir} {acks}"),
            broken(&["/some/state /some/acks"])
        );
    }

    #[test]
    fn a_check_that_hangs_is_ended_with_all_that_it_started() {
        let directory = tempfile::tempdir().expect("a directory");
        let numbers = directory.path().join("numbers");
        let script = format!(
            "sleep 3000 & echo $$ $! > {0}.new; mv {0}.new {0}; wait",
            numbers.display()
        );
        let mut checker = checker(CheckCommand::Once(script));
        checker.check.limit = Duration::from_millis(300);
        // On a busy machine it may not have started anything by then.
        while !numbers.exists() {
            let limit = checker.check.limit.as_secs_f64();
            let verdict = checker
                .judge(Path::new("/x"), Path::new("/y"))
                .expect("it runs");
            assert!(
                is_open(&verdict, &format!("longer than {limit} s")),
                "{verdict:?}"
            );
            checker.check.limit *= 2;
        }
        for pid in std::fs::read_to_string(&numbers)
            .expect("read")
            .split_whitespace()
        {
            wait_until(|| {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                stat.is_empty() || stat.contains(") Z ")
            });
        }
    }

    fn wait_until(is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_check_that_ended_before_it_was_asked_is_told_with_what_it_said() {
        let mut server = Server::start(
            Command::new("/bin/sh").args(["-c", "echo no such database >&2; exit 7"]),
            None,
        )
        .expect("started");
        let interrupt = Interrupt::default();
        let patience = Patience {
            deadline: Instant::now() + PATIENCE,
            interrupt: &interrupt,
        };
        let status = server
            .group
            .wait(patience)
            .expect("waited for")
            .expect("it ends");
        assert!(matches!(
            server.ask(b"/x\t/y\n", patience),
            Ok(Answer::Ended)
        ));
        let verdict = ended(status, &mut server.errors);
        assert!(is_open(
            &verdict,
            "the check ended with status 7: no such database"
        ));
    }

    #[test]
    fn whoever_interrupts_does_not_wait_for_a_check() {
        for command in [
            CheckCommand::Once("sleep 3000".into()),
            CheckCommand::Serve("read line; sleep 3000".into()),
        ] {
            let mut checker = checker(command);
            let interrupt = checker.check.interrupt.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                interrupt.request();
            });
            let began = Instant::now();
            let verdict = checker
                .judge(Path::new("/x"), Path::new("/y"))
                .expect("it runs");
            assert!(is_open(&verdict, "interrupted"), "{verdict:?}");
            assert!(began.elapsed() < PATIENCE / 2, "it was waited for");
        }
    }

    #[test]
    fn what_keeps_the_output_open_does_not_keep_us() {
        let began = Instant::now();
        assert_eq!(once("sleep 3000 & echo ok"), Verdict::Ok);
        assert!(began.elapsed() < PATIENCE / 2, "it was waited for");
    }

    #[test]
    fn a_check_that_keeps_running_answers_for_many_states() {
        let script = r#"echo began; n=0; while read dir acks; do n=$((n+1)); case $dir in
            */bad) echo "broken $dir $acks as state $n";;
            */silent) ;;
            */crash) echo oh no >&2; exit 7;;
            */hang) sleep 3000;;
            */more) printf "ok\nend\nbroken that was the one before\n"; continue;;
            */late) echo ok; echo end; echo "broken that was the one before";  continue;;
            *) echo ok;;
            esac; echo end; done"#;
        let mut checker = checker(CheckCommand::Serve(script.into()));
        let judge = |checker: &mut Checker, name: &str| {
            checker.check.limit = if name == "hang" {
                Duration::from_millis(500)
            } else {
                PATIENCE
            };
            checker
                .judge(&Path::new("/states").join(name), Path::new("/acks"))
                .expect("it runs")
        };
        let checker = &mut checker;
        assert_eq!(judge(checker, "good"), Verdict::Ok);
        assert_eq!(
            judge(checker, "bad"),
            Verdict::Broken(vec!["/states/bad /acks as state 2".into()].into())
        );
        assert!(is_open(&judge(checker, "silent"), "no verdict"));
        assert!(is_open(&judge(checker, "crash"), "status 7: oh no"));
        assert_eq!(judge(checker, "good"), Verdict::Ok);
        assert!(is_open(&judge(checker, "hang"), "longer than"));
        assert_eq!(
            judge(checker, "bad"),
            Verdict::Broken(vec!["/states/bad /acks as state 1".into()].into())
        );
        assert_eq!(judge(checker, "more"), Verdict::Ok);
        assert_eq!(judge(checker, "good"), Verdict::Ok);
        assert_eq!(judge(checker, "late"), Verdict::Ok);
        wait_until(|| checker.server.as_ref().is_none_or(Server::has_more));
        assert_eq!(judge(checker, "good"), Verdict::Ok);
    }
}
