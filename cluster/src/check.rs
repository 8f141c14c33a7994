//! Whether a cluster holds what it promised.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::process::{each_line, ending, finish, kill_group};

/// What a check says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All is there.
    Ok,
    /// What is not as it was promised, in its words.
    Broken(Vec<String>),
    /// It did not decide: why.
    NotMeasured(String),
}

/// Runs a check once. Only `ok` and `broken` lines count, and only of one that ends as it should: a
/// check that crashes, hangs or says nothing decides nothing.
///
/// One that keeps running gets `line`, and is done with the line `end`.
///
/// # Errors
/// If it cannot be run.
pub fn judge(
    mut command: Command,
    line: Option<&str>,
    within: Duration,
    cancelled: &dyn Fn() -> bool,
) -> io::Result<Verdict> {
    command.stdout(Stdio::piped()).stdin(if line.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn()?;
    if let Some(line) = line {
        // Who ends without reading is told by how it ends.
        let _ = writeln!(child.stdin.as_mut().expect("piped"), "{line}");
    }
    let output = child.stdout.take().expect("piped");
    let deadline = Instant::now() + within;
    let (mut said, mut is_complete) = (Vec::new(), line.is_none());
    let ended = each_line(output, deadline, cancelled, |text| {
        is_complete |= text == b"end";
        said.push(String::from_utf8_lossy(text).into_owned());
        !(is_complete && line.is_some())
    });
    if !ended {
        kill_group(&mut child);
        return Ok(Verdict::NotMeasured(format!("the check did not end within {within:?}")));
    }
    drop(child.stdin.take());
    let left = deadline.saturating_duration_since(Instant::now());
    let Some(status) = finish(&mut child, left, cancelled)? else {
        return Ok(Verdict::NotMeasured(format!("the check did not end within {within:?}")));
    };
    let well = matches!(status.code(), Some(0 | 1)) && is_complete;
    Ok(if well {
        verdict(&said, status.code() == Some(0))
    } else {
        Verdict::NotMeasured(format!("the check {}", ending(status)))
    })
}

fn verdict(said: &[String], success: bool) -> Verdict {
    let broken = said.iter().filter_map(|line| match line.split_once(' ') {
        Some(("broken", what)) => Some(what.to_owned()),
        _ => (line == "broken").then(String::new),
    });
    let broken: Vec<_> = broken.collect();
    let ok = said.iter().any(|line| line == "ok" || line.starts_with("ok "));
    match (broken.is_empty(), ok) {
        (false, _) => Verdict::Broken(broken),
        (true, true) if success => Verdict::Ok,
        (true, true) => Verdict::NotMeasured("the check says ok and ended with status 1".into()),
        (true, false) => Verdict::NotMeasured("the check gave no verdict".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;

    fn of(script: &str) -> Verdict {
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0);
        judge(command, None, Duration::from_millis(400), &|| false).expect("run")
    }

    fn not_measured(why: &str) -> Verdict {
        Verdict::NotMeasured(why.into())
    }

    #[test]
    fn only_a_check_that_ends_as_it_should_and_says_so_decides() {
        assert_eq!(of("echo talk; echo ok"), Verdict::Ok);
        assert_eq!(of("echo ok; echo broken k1 is lost; exit 1"), Verdict::Broken(vec!["k1 is lost".into()]));
        assert_eq!(of("echo broken k1 is lost"), Verdict::Broken(vec!["k1 is lost".into()]));
        assert_eq!(of("echo okay"), not_measured("the check gave no verdict"));
        assert_eq!(of("echo ok; exit 1"), not_measured("the check says ok and ended with status 1"));
        assert_eq!(of("echo broken x; exit 2"), not_measured("the check ended with status 2"));
        assert_eq!(of("echo ok; kill -SEGV $$"), not_measured("the check was ended by SIGSEGV"));
        assert_eq!(of("echo ok; sleep 60"), not_measured("the check did not end within 400ms"));
        assert_eq!(of("echo ok; exec >&-; sleep 60"), not_measured("the check did not end within 400ms"));
    }

    #[test]
    fn a_check_that_keeps_running_is_asked_with_a_line_and_answers_until_end() {
        let of = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).process_group(0);
            judge(command, Some("DIR\tACKS"), Duration::from_secs(5), &|| false).expect("run")
        };
        let reads = "while read line; do echo \"broken $line\"; echo end; done";
        assert_eq!(of(reads), Verdict::Broken(vec!["DIR\tACKS".into()]));
        assert_eq!(of("read line; echo ok"), not_measured("the check ended with status 0"));
    }
}
