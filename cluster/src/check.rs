//! Whether a cluster holds what it promised.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use machine::Logged;

use crate::died::died_of;
use crate::error::log_words;
use crate::log;
use crate::process::{Ending, Heard, each_line, finish, kill_group, lines_of};

/// What a check says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All is there.
    Ok,
    /// What is not as it was promised, in its words.
    Broken(Vec<String>),
    /// It did not decide: why.
    Inconclusive(String),
}

impl Verdict {
    /// The same; if it did not decide, with the end of its log.
    pub(crate) fn with_log(self, errors: &Errors) -> Self {
        match self {
            Self::Inconclusive(why) => {
                let tail = log::tail_since(&errors.log, errors.from);
                Self::Inconclusive(why + &log_words(&tail))
            }
            other => other,
        }
    }
}

/// What a check says beside its verdict: what is in its log from a place on. Before that is what it said when it
/// was asked before.
#[derive(Debug, Clone)]
pub(crate) struct Errors {
    log: PathBuf,
    from: u64,
}

impl Errors {
    /// That of a check that keeps running, or of one that begins its log anew.
    pub(crate) fn of(log: PathBuf, goes_on: bool) -> Self {
        if goes_on {
            Self::from_now_on(log)
        } else {
            Self { log, from: 0 }
        }
    }

    /// What is going to be in a log.
    pub(crate) fn from_now_on(log: PathBuf) -> Self {
        let from = log.metadata().map_or(0, |data| data.len());
        Self { log, from }
    }

    fn text(&self) -> String {
        let bytes = log::read_from(&self.log, self.from).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Has a check that keeps running look at what was acknowledged. There is a directory for each node,
/// and none that is the state's.
pub(crate) fn question(acknowledgements: &Path) -> String {
    format!("-\t{}", acknowledgements.display())
}

/// Runs a check once. Only `ok` and `broken` lines count, and only of one that
/// ends as it should: one that hangs or says nothing decides nothing, and one that dies has found a
/// violation ([`died_of`]).
///
/// # Errors
/// If it cannot be run.
pub(crate) fn judge(
    mut command: Command,
    within: Duration,
    cancelled: &dyn Fn() -> bool,
    errors: &Errors,
) -> io::Result<Verdict> {
    let mut child = command
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn_logged()?;
    let lines = lines_of(child.stdout.take().expect("piped"));
    let deadline = Instant::now() + within;
    let mut said = Vec::new();
    let heard = each_line(&lines, deadline, cancelled, |line| {
        said.push(String::from_utf8_lossy(line).into_owned());
        true
    });
    let left = if heard == Heard::Stopped {
        Duration::ZERO
    } else {
        deadline.saturating_duration_since(Instant::now())
    };
    Ok(match finish(&mut child, left, cancelled)? {
        None => too_long(within),
        Some(status) => of_end(&said, status, errors),
    })
}

/// The verdict of a check that printed these lines, and ended like this.
pub(crate) fn of_end(said: &[impl AsRef<str>], status: ExitStatus, errors: &Errors) -> Verdict {
    match status.code() {
        Some(0 | 1) => verdict(said, status.success()),
        _ => ended(status, errors),
    }
}

/// That of a check that ended without one.
pub(crate) fn ended(status: ExitStatus, errors: &Errors) -> Verdict {
    match died_of(status, &errors.text()) {
        Some(cause) => Verdict::Broken(vec![format!("the check died of {cause}")]),
        None => Verdict::Inconclusive(format!("the check {}", Ending::from(status))),
    }
}

/// A check that keeps running, and answers for one state after the other.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    lines: Receiver<Vec<u8>>,
}

/// What ends the answer of a check that keeps running.
pub(crate) const END: &str = "end";

impl Server {
    /// Starts one.
    ///
    /// # Errors
    /// If it cannot be run.
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command
            .stdout(Stdio::piped())
            .stdin(Stdio::piped())
            .spawn_logged()?;
        let lines = lines_of(child.stdout.take().expect("piped"));
        Ok(Self { child, lines })
    }

    /// Whether it has said something after its answer, which would be taken for what it says of the next
    /// state.
    pub(crate) fn has_more(&self) -> bool {
        self.lines.try_recv().is_ok()
    }

    /// Asks for one state. Only one that gave a whole answer may be asked again:
    /// whoever gets none back starts another.
    ///
    /// # Errors
    /// If it cannot be known how it ended.
    pub(crate) fn ask(
        mut self,
        line: &str,
        within: Duration,
        cancelled: &dyn Fn() -> bool,
        errors: &Errors,
    ) -> io::Result<(Verdict, Option<Self>)> {
        tracing::debug!(pid = self.child.id(), line, "asked the check");
        // Who ends without reading is told by how it ends.
        let _ = writeln!(self.child.stdin.as_mut().expect("piped"), "{line}");
        let mut said = Vec::new();
        let heard = each_line(&self.lines, Instant::now() + within, cancelled, |line| {
            let is_end = line == END.as_bytes();
            if !is_end {
                said.push(String::from_utf8_lossy(line).into_owned());
            }
            !is_end
        });
        Ok(match heard {
            Heard::Enough => (verdict(&said, true), Some(self)),
            Heard::Stopped => (too_long(within), None),
            Heard::All => match finish(&mut self.child, within, cancelled)? {
                Some(status) => (ended(status, errors), None),
                None => (too_long(within), None),
            },
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        kill_group(&mut self.child);
    }
}

/// That of a check that takes too long.
pub(crate) fn too_long(within: Duration) -> Verdict {
    Verdict::Inconclusive(format!("the check did not end within {within:?}"))
}

/// The verdict of a check that printed these lines: `ok` or `broken`, alone or with more words
/// after a space, with or without a colon. All else is talk. `success` is whether it ended with
/// status 0, or goes on running: who says `ok` and ends otherwise has decided nothing.
pub fn verdict(said: &[impl AsRef<str>], success: bool) -> Verdict {
    let lines = || said.iter().map(|line| line.as_ref().trim_end());
    let broken = lines().filter_map(|line| {
        let what = after_word(line, "broken")?;
        Some(if what.is_empty() { "broken" } else { what }.to_owned())
    });
    let broken: Vec<_> = broken.collect();
    let ok = lines().any(|line| after_word(line, "ok").is_some());
    match (broken.is_empty(), ok) {
        (false, _) => Verdict::Broken(broken),
        (true, true) if success => Verdict::Ok,
        (true, true) => Verdict::Inconclusive("the check said `ok` and ended with status 1".into()),
        (true, false) => Verdict::Inconclusive(match lines().last() {
            Some(line) => {
                format!("the check gave no verdict: the last that it printed is `{line}`")
            }
            None => "the check gave no verdict: it printed nothing".into(),
        }),
    }
}

/// What a line says after a word of a verdict; nothing if it does not begin with that word.
fn after_word<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(word)?;
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;

    /// Only ends what would hang.
    const PATIENCE: Duration = Duration::from_secs(600);

    fn no_log() -> Errors {
        Errors::of(PathBuf::new(), false)
    }

    fn within(time: Duration, script: &str) -> Verdict {
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0);
        judge(command, time, &|| false, &no_log()).expect("run")
    }

    fn of(script: &str) -> Verdict {
        within(PATIENCE, script)
    }

    fn inconclusive(why: &str) -> Verdict {
        Verdict::Inconclusive(why.into())
    }

    /// What comes late is no answer to the next question.
    #[test]
    fn a_check_that_goes_on_to_talk_after_its_answer_is_known() {
        let asked = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).process_group(0);
            let server = Server::start(command).expect("started");
            let answer = server.ask("a question", PATIENCE, &|| false, &no_log());
            let (verdict, server) = answer.expect("an answer");
            assert_eq!(verdict, Verdict::Ok);
            server.expect("it goes on")
        };
        let talks = asked("read x; echo ok; echo end; echo broken late; exec sleep 600");
        while !talks.has_more() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let waits = asked("read x; echo ok; echo end; exec sleep 600");
        assert!(!waits.has_more());
    }

    #[test]
    fn only_a_check_that_ends_as_it_should_and_says_so_decides() {
        assert_eq!(of("echo talk; echo ok"), Verdict::Ok);
        assert_eq!(of("echo ok 5 keys"), Verdict::Ok);
        assert_eq!(
            of("echo broken; echo 'brokenness is talk'"),
            Verdict::Broken(vec!["broken".into()])
        );
        assert_eq!(
            of("echo ok; echo broken k1 is lost; exit 1"),
            Verdict::Broken(vec!["k1 is lost".into()])
        );
        assert_eq!(
            of("echo broken k1 is lost"),
            Verdict::Broken(vec!["k1 is lost".into()])
        );
        // Who writes a colon means the same: beside an `ok`, taken for talk, it would be lost.
        assert_eq!(
            of("echo 'broken: k1 is lost'; echo ok"),
            Verdict::Broken(vec!["k1 is lost".into()])
        );
        assert_eq!(of("echo ok: 5 keys"), Verdict::Ok);
        assert_eq!(
            of("echo 'broken:ness'; echo 'ok:ay'"),
            inconclusive("the check gave no verdict: the last that it printed is `ok:ay`")
        );
        assert_eq!(
            of("echo okay"),
            inconclusive("the check gave no verdict: the last that it printed is `okay`")
        );
        assert_eq!(
            of("echo ok; exit 1"),
            inconclusive("the check said `ok` and ended with status 1")
        );
        assert_eq!(
            of("echo broken x; exit 2"),
            inconclusive("the check ended with status 2")
        );
        assert_eq!(
            of("echo ok; kill -TERM $$"),
            inconclusive("the check was ended by SIGTERM")
        );
        for script in [
            "echo ok; exec sleep 3000",
            "echo ok; exec >&-; exec sleep 3000",
        ] {
            let verdict = within(Duration::from_millis(400), script);
            assert_eq!(
                verdict,
                inconclusive("the check did not end within 400ms"),
                "{script}"
            );
        }
    }

    #[test]
    fn a_check_that_dies_has_found_a_violation() {
        let died = |of: &str| Verdict::Broken(vec![format!("the check died of {of}")]);
        assert_eq!(of("echo ok; kill -SEGV $$"), died("SIGSEGV"));
        assert_eq!(of("sh -c 'kill -BUS $$'; exit $?"), died("SIGBUS"));
        let log = tempfile::NamedTempFile::new().expect("a file");
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo 'fatal error: fault' >&2; exit 2"])
            .stderr(log.reopen().expect("open"))
            .process_group(0);
        let errors = Errors::from_now_on(log.path().to_owned());
        let verdict = judge(command, PATIENCE, &|| false, &errors).expect("run");
        assert_eq!(verdict, died("a fault in Go"));
        let mut command = Command::new("sh");
        command
            .args(["-c", "read line; kill -SEGV $$"])
            .process_group(0);
        let server = Server::start(command).expect("started");
        let (verdict, server) = server
            .ask("x", PATIENCE, &|| false, &no_log())
            .expect("asked");
        assert_eq!(verdict, died("SIGSEGV"));
        assert!(server.is_none());
    }

    /// It may talk of a fault, go on, and end for another reason when it is asked again.
    #[test]
    fn what_a_check_said_when_it_was_asked_before_is_no_reason_for_its_end() {
        let log = tempfile::NamedTempFile::new().expect("a file");
        let script = "read x; echo 'fatal error: fault' >&2; echo ok; echo end; read x; exit 2";
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .stderr(log.reopen().expect("open"))
            .process_group(0);
        let server = Server::start(command).expect("started");
        let ask = |server: Server| {
            let errors = Errors::from_now_on(log.path().to_owned());
            let answer = server
                .ask("x", PATIENCE, &|| false, &errors)
                .expect("asked");
            (answer.0.with_log(&errors), answer.1)
        };
        let (verdict, server) = ask(server);
        assert_eq!(verdict, Verdict::Ok);
        let (verdict, _) = ask(server.expect("it goes on"));
        let expected = "the check ended with status 2; it logged nothing";
        assert_eq!(verdict, inconclusive(expected));
    }

    #[test]
    fn a_check_that_keeps_running_is_asked_with_a_line_for_each_state() {
        let start = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).process_group(0);
            Server::start(command).expect("started")
        };
        let ask_within = |time: Duration, server: Server, line: &str| {
            server.ask(line, time, &|| false, &no_log()).expect("asked")
        };
        let ask = |server: Server, line: &str| ask_within(PATIENCE, server, line);
        let broken = |words: &str| Verdict::Broken(vec![words.into()]);
        let echo = "echo $$; while read line; do echo \"broken $line $$\"; echo end; done";
        let (first, server) = ask(start(echo), "one");
        let (second, server) = ask(server.expect("it goes on"), "two");
        let pid = server.expect("it goes on").child.id();
        assert_eq!(
            [first, second],
            [broken(&format!("one {pid}")), broken(&format!("two {pid}"))]
        );
        for (script, why) in [
            ("read line; echo ok", "the check ended with status 0"),
            (
                "echo end; exec sleep 3000",
                "the check gave no verdict: it printed nothing",
            ),
        ] {
            assert_eq!(ask(start(script), "x").0, inconclusive(why), "{script}");
        }
        for script in [
            "echo ok; exec >&-; exec sleep 3000",
            "echo ok; exec sleep 3000",
        ] {
            let (verdict, _) = ask_within(Duration::from_millis(400), start(script), "x");
            assert_eq!(
                verdict,
                inconclusive("the check did not end within 400ms"),
                "{script}"
            );
        }
    }
}
