//! `crashpoint completions` and `man`, from the definition that the command line is parsed by.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use campaign::Outcome;
use clap::{Args, ValueEnum};
use clap_complete::Shell;

/// The arguments of `crashpoint completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Which shell: source <(crashpoint completions bash)
    shell: ShellName,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
}

/// The arguments of `crashpoint man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Where to write crashpoint.1, crashpoint-fs.1 and so on; it is made if it is not there
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Prints the completions of a shell.
pub(crate) fn completions(arguments: &CompletionsArgs) -> anyhow::Result<Outcome> {
    let shell = match arguments.shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::command(), "crashpoint", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Outcome::Clean)
}

/// Writes the manual pages.
pub(crate) fn man(arguments: &ManArgs) -> anyhow::Result<Outcome> {
    let directory = &arguments.directory;
    let made = std::fs::create_dir_all(directory);
    let written = made.and_then(|()| clap_mangen::generate_to(crate::command(), directory));
    written.with_context(|| format!("write manual pages to {}", directory.display()))?;
    Ok(Outcome::Clean)
}
