//! Words as a shell takes them.

use std::borrow::Cow;

/// A word in quotes, where it needs them. A NUL byte stays, which no shell can take.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let quoter = shlex::Quoter::new().allow_nul(true);
    quoter.quote(word).expect("only a NUL byte is refused")
}

/// How this program was called. That works from where the caller stands, which the name of the
/// program alone does only if it is installed.
pub fn own_call() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = quoted(&called.to_string_lossy()).into_owned();
    // sudo(8) sets it for what it starts. Whoever needed it once needs it again.
    if std::env::var_os("SUDO_COMMAND").is_some() {
        format!("sudo {name}")
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_takes_a_quoted_word_as_it_was() {
        for word in [
            "plain",
            "",
            "two words",
            "it's",
            r#"creat "a\nb"; $(exit) `x` "#,
            "--fs",
            "a=b:c,d",
            "*",
            "~",
        ] {
            let script = format!("printf %s {}", quoted(word));
            let output = Command::new("sh")
                .args(["-c", &script])
                .output()
                .expect("it runs");
            assert_eq!(String::from_utf8_lossy(&output.stdout), word, "{script}");
        }
        assert_eq!(
            quoted("target/release/crashpoint"),
            "target/release/crashpoint"
        );
    }
}
