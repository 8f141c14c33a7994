//! Commands in machines: with what environment they run, and what they see.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::{SimulatedCluster, words_of};
use crate::error::{Error, Result};
use crate::file::ClusterFile;
use crate::process::Ending;
use crate::simulated::words::{Order, ProcessId, Task};

/// The variables of our own environment that commands have in a machine. Others than these would make another
/// history.
const VARIABLES: [&str; 3] = ["PATH", "HOME", "LANG"];

/// Where machines have directories of their own, with those of the host's below that they must see
/// ([`machine::cover_guest_temporary`]).
const OWN_DIRECTORIES: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Where they have one with nothing of the host's.
const OWN_RUN: &str = "/run";

impl SimulatedCluster {
    /// Runs a command, and waits for its end. What it prints is in the log with a name. How it failed, if it
    /// did.
    pub(super) fn run_to_end(
        &mut self,
        machine: usize,
        task: Task,
        log_name: &str,
        within: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<String>> {
        let id = self.hosts.start(machine, task, log_name, true)?;
        let status = self.wait(machine, within, cancelled, |hosts| {
            hosts
                .process(machine, id)
                .and_then(|process| process.status)
        })?;
        self.end_process(machine, id);
        let Some(status) = status.map(ExitStatus::from_raw) else {
            self.refuse_lost_kernel(machine)?;
            let how = self.ended_with_machine(machine);
            return Ok(Some(
                how.unwrap_or_else(|| format!("did not end within {within:?}")),
            ));
        };
        Ok((!status.success()).then(|| Ending::from(status).to_string()))
    }

    /// How a command ended whose machine has ended, if that has.
    pub(super) fn ended_with_machine(&self, machine: usize) -> Option<String> {
        let end = self.hosts.end(machine)?;
        Some(format!("did not end: its machine {}", words_of(end)))
    }

    pub(super) fn end_process(&mut self, machine: usize, id: ProcessId) {
        let signal = Signal::SIGKILL as i32;
        self.hosts.order(machine, &Order::Signal { id, signal });
        self.hosts.forget_process(machine, id);
    }

    pub(super) fn node_task(&self, machine: usize, words: &[String]) -> Task {
        let node = &self.file.nodes[machine];
        let mut environment = self.settings.environment.clone();
        environment.extend(node.environment.clone());
        Task {
            words: words.to_vec(),
            directory: if node.has_data {
                node.directory()
            } else {
                "/".into()
            },
            user: node.user.clone(),
            environment,
            has_input: false,
            is_tracer: false,
        }
    }

    pub(super) fn client_task(&self, words: &[String], has_input: bool) -> Task {
        let mut environment = self.settings.environment.clone();
        environment.extend(self.file.client_environment());
        environment.extend(self.variables.iter().cloned());
        Task {
            words: words.to_vec(),
            directory: self.file.folder.clone(),
            user: None,
            environment,
            has_input,
            is_tracer: false,
        }
    }
}

/// What may lie in directories for temporary files, and must be seen: the folder of the cluster
/// file, where programs are looked for (in an environment, not in our own), and what commands name.
///
/// # Errors
/// If the folder or a program is where it cannot be shown.
pub(super) fn visible(
    file: &ClusterFile,
    environment: &[(String, String)],
) -> Result<Vec<PathBuf>> {
    refuse_hidden("the cluster file", &file.folder)?;
    let search = environment.iter().find(|(name, _)| name == "PATH");
    let search = search.map_or("", |(_, path)| path);
    let commands = file.commands(search)?;
    for command in &commands {
        let program = command.program();
        let directory = program.as_deref().and_then(Path::parent);
        if let Some(directory) = directory.and_then(|path| path.canonicalize().ok()) {
            let whose = format!("{}: {}", command.whose, command.words[0]);
            refuse_hidden(&whose, &directory)?;
        }
    }
    let words = commands.iter().flat_map(|command| &command.words);
    let named = words.filter_map(|word| directory_of(word));
    let programs = std::env::split_paths(search).filter(|directory| directory.is_dir());
    let mut visible: Vec<_> = named.chain(programs).collect();
    visible.push(file.folder.clone());
    visible.sort();
    visible.dedup();
    Ok(visible)
}

/// Fails if a directory in which something lies is hidden in machines by one of their own. What is shown of
/// the host there is directories.
fn refuse_hidden(what: &str, directory: &Path) -> Result<()> {
    let is_own = OWN_DIRECTORIES
        .iter()
        .any(|own| directory == Path::new(own));
    if !is_own && !directory.starts_with(OWN_RUN) {
        return Ok(());
    }
    Err(Error::Command {
        whose: what.to_owned(),
        what: format!(
            "cannot be seen by simulated machines: they have a directory of their own at {}. Move it into a \
             directory of its own, such as one in /tmp",
            directory.display()
        ),
    })
}

/// The directory that a word of a command names, or in which what it names is.
fn directory_of(word: &str) -> Option<PathBuf> {
    let path = Path::new(word.rsplit('=').next().unwrap_or_default());
    let is_there = path.is_absolute() && path.exists();
    let directory = if path.is_dir() {
        Some(path)
    } else {
        path.parent()
    };
    // With `..` in it, it would be looked for below what covers it.
    directory.filter(|_| is_there)?.canonicalize().ok()
}

/// What commands in machines have of our own environment.
pub fn own_environment() -> Vec<(String, String)> {
    let known = VARIABLES.iter();
    let known = known.filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    known.collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn visible_of(text: &str, folder: &Path) -> Result<Vec<PathBuf>> {
        visible_to("/usr/bin:/proc", text, folder)
    }

    fn visible_to(path: &str, text: &str, folder: &Path) -> Result<Vec<PathBuf>> {
        let file = ClusterFile::parse(text, Path::new("cluster.toml"), folder);
        let environment = [("PATH".to_owned(), path.to_owned())];
        visible(&file.expect("it is right"), &environment)
    }

    /// Each command names something in a directory that is called as it is.
    const FILE: &str = r#"
prepare = "cat TMP/prepare/x"
[[nodes]]
name = "n"
command = "cat TMP/node/x"
setup = ["cat --from=TMP/setup/x"]
ready = { command = "cat TMP/ready/x" }
[[steps]]
name = "s"
command = "cat TMP/step/x"
[client]
command = "cat TMP/client/x"
[[clients]]
name = "c"
command = "cat TMP/other/x"
[probe]
command = "cat TMP/probe/x"
roles = ["leads"]
[check]
command = "cat TMP/check/x {acks}"
"#;

    #[test]
    fn machines_see_what_commands_name() {
        let place = tempfile::tempdir().expect("a directory");
        let place = place.path().canonicalize().expect("it is there");
        let names = [
            "prepare", "node", "setup", "ready", "step", "client", "other", "probe", "check",
        ];
        for name in names {
            fs::create_dir(place.join(name)).expect("created");
            fs::write(place.join(name).join("x"), "").expect("written");
        }
        let text = FILE.replace("TMP", place.to_str().expect("text"));
        let seen = visible_of(&text, Path::new("/folder")).expect("all can be seen");
        for name in names {
            assert!(seen.contains(&place.join(name)), "{name}: {seen:?}");
        }
        assert!(seen.contains(&PathBuf::from("/folder")));
        let is_of_path = "where programs are looked for";
        assert!(seen.contains(&PathBuf::from("/proc")), "{is_of_path}");
    }

    #[test]
    fn what_machines_cannot_be_shown_is_refused() {
        let program = tempfile::NamedTempFile::new_in("/tmp").expect("a file");
        fs::set_permissions(program.path(), Permissions::from_mode(0o755)).expect("changed");
        let node = |command: &str| format!("[[nodes]]\nname = \"n\"\ncommand = \"{command}\"\n");
        let own = program.path().display().to_string();
        let refused = visible_of(&node(&own), Path::new("/folder")).expect_err("it is hidden");
        let expected = format!(
            "node n: {own} cannot be seen by simulated machines: they have a directory of their own at /tmp."
        );
        let words = refused.to_string();
        assert!(words.starts_with(&expected), "{words}");
        // Commands look for it in their own environment, and not in ours.
        let name = program.path().file_name().expect("it has one");
        let bare = node(name.to_str().expect("text"));
        assert!(visible_to("/usr/bin:/tmp", &bare, Path::new("/folder")).is_err());
        assert!(visible_to("/usr/bin", &node("sh"), Path::new("/folder")).is_ok());
        // A machine's own directory is no program.
        let names_own = node("ls /tmp");
        for (folder, is_seen) in [
            ("/tmp", false),
            ("/var/tmp", false),
            ("/dev/shm", false),
            ("/run/a", false),
            ("/tmp/a", true),
            ("/runs", true),
        ] {
            let seen = visible_of(&names_own, Path::new(folder));
            assert_eq!(seen.is_ok(), is_seen, "{folder}");
        }
    }
}
