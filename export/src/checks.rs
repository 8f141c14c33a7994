//! What is looked at after the crash.

use checker::Promise;
use checker::facts::{Fact, FactKind, Noun};

use crate::commands::{Commands, Dialect};
use crate::{Crash, NotExpressible};

type Result<T> = std::result::Result<T, NotExpressible>;

/// The checks of a crash.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// A condition that must hold, and what to say if it does not.
    pub(crate) conditions: Vec<(String, String)>,
    /// Commands that must print the same before and after the crash.
    pub(crate) same: Vec<String>,
    /// Everything must be possible to remove.
    pub(crate) removable: bool,
}

impl Checks {
    /// Those for what is certain after a crash.
    pub(crate) fn of(crash: &Crash<'_>, dialect: Dialect, getfattr: &str) -> Result<Self> {
        let mut checks = Self {
            removable: crash.has_broken(&[Promise::Usable]),
            ..Self::default()
        };
        let commands = Commands::new(dialect);
        let root = commands.path(".")?;
        for finding in crash
            .findings
            .iter()
            .filter(|finding| finding.promise == Promise::NoForeignNames)
        {
            let path = commands.path(&finding.path)?;
            checks.conditions.push((
                gone(&path),
                format!("{} is there, and nobody made it", finding.path),
            ));
        }
        if crash.has_broken(&[Promise::Readable]) {
            let read = format!("find {root} -xdev -type f -exec cat {{}} + >/dev/null");
            checks
                .conditions
                .push((read, "not everything can be read".into()));
        }
        for fact in crash.facts()? {
            let path = commands.path(&fact.path)?;
            checks.fact(crash, &commands, &fact, &path, getfattr)?;
        }
        Ok(checks)
    }

    fn fact(
        &mut self,
        crash: &Crash<'_>,
        commands: &Commands,
        fact: &Fact,
        path: &str,
        getfattr: &str,
    ) -> Result<()> {
        let name = &fact.path;
        let mut must =
            |condition: String, else_say: String| self.conditions.push((condition, else_say));
        match &fact.kind {
            FactKind::Exists(noun) => {
                let (test, noun) = match noun {
                    Noun::File => ("-f", "file"),
                    Noun::Directory => ("-d", "directory"),
                    Noun::Symlink => ("-L", "symlink"),
                    Noun::Fifo => ("-p", "fifo"),
                    Noun::Device => ("-e", "device"),
                };
                must(
                    format!("[ {test} {path} ]"),
                    format!("{noun} {name} is missing"),
                );
                if crash.has_broken(&[Promise::LinkCount]) && noun == "file" {
                    let root = commands.path(".")?;
                    let count = format!("find {root} -xdev -samefile {path} | wc -l");
                    must(
                        format!("[ \"$(stat -c %h {path})\" -eq \"$({count})\" ]"),
                        format!("the link count of {name} is not the number of its names"),
                    );
                }
            }
            FactKind::Gone => {
                must(gone(path), format!("{name} is there again"));
            }
            FactKind::OrAt(other) => {
                let other_path = commands.path(other)?;
                let count = format!("ls -d {path} {other_path} 2>/dev/null | wc -l");
                must(
                    format!("[ \"$({count})\" -eq 1 ]"),
                    format!("not one of {name} and {other} is there, but both or neither"),
                );
            }
            FactKind::SameContent => {
                self.same.push(format!("md5sum {path}"));
                let space = [
                    Promise::Preallocation,
                    Promise::BlocksExact,
                    Promise::HoleLayout,
                ];
                if crash.has_broken(&space) {
                    self.same.push(format!("stat -c '%n: %b blocks' {path}"));
                }
            }
            FactKind::SameTarget => self.same.push(format!("readlink {path}")),
            FactKind::SameAttributes
                if crash.findings.is_empty() || crash.has_broken(&[Promise::FsyncAttributes]) =>
            {
                self.same.push(format!("stat -c '%n: %a %u:%g' {path}"));
            }
            FactKind::SameXattrs
                if crash.findings.is_empty() || crash.has_broken(&[Promise::FsyncXattrs]) =>
            {
                self.same
                    .push(format!("{getfattr} -h -d --absolute-names {path}"));
            }
            FactKind::SameAttributes | FactKind::SameXattrs => {}
        }
        Ok(())
    }
}

fn gone(path: &str) -> String {
    format!("[ ! -e {path} ] && [ ! -L {path} ]")
}
