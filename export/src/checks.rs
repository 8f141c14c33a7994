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
        let mut list = List {
            crash,
            commands: Commands::new(dialect),
            getfattr,
            checks: Self {
                removable: crash.has_broken(&[Promise::Usable]),
                ..Self::default()
            },
        };
        list.foreign_names()?;
        if crash.has_broken(&[Promise::Readable]) {
            list.readable()?;
        }
        for fact in crash.facts()? {
            list.fact(&fact)?;
        }
        Ok(list.checks)
    }
}

/// The checks of a crash, as they are put together.
struct List<'a, 'c> {
    crash: &'a Crash<'c>,
    commands: Commands,
    /// How getfattr(1) is called.
    getfattr: &'a str,
    checks: Checks,
}

impl List<'_, '_> {
    fn must(&mut self, condition: String, else_say: String) {
        self.checks.conditions.push((condition, else_say));
    }

    /// What is printed must be the same before and after the crash.
    fn same(&mut self, command: String) {
        self.checks.same.push(command);
    }

    fn foreign_names(&mut self) -> Result<()> {
        let crash = self.crash;
        let foreign = |promise| promise == Promise::NoForeignNames;
        for finding in crash.findings.iter().filter(|one| foreign(one.promise)) {
            let path = self.commands.path(&finding.path)?;
            let else_say = format!("{} is there, and nobody made it", finding.path);
            self.must(gone(&path), else_say);
        }
        Ok(())
    }

    fn readable(&mut self) -> Result<()> {
        let root = self.commands.path(".")?;
        let read = format!("find {root} -xdev -type f -exec cat {{}} + >/dev/null");
        self.must(read, "not everything can be read".into());
        Ok(())
    }

    fn fact(&mut self, fact: &Fact) -> Result<()> {
        let name = &fact.path;
        let path = self.commands.path(name)?;
        match &fact.kind {
            FactKind::Exists(noun) => self.exists(*noun, name, &path)?,
            FactKind::Gone => self.must(gone(&path), format!("{name} is there again")),
            FactKind::OrAt(other) => {
                let other_path = self.commands.path(other)?;
                let count = format!("ls -d {path} {other_path} 2>/dev/null | wc -l");
                self.must(
                    format!("[ \"$({count})\" -eq 1 ]"),
                    format!("not one of {name} and {other} is there, but both or neither"),
                );
            }
            FactKind::SameContent => self.same_content(&path),
            FactKind::SameTarget => self.same(format!("readlink {path}")),
            FactKind::SameAttributes if self.is_about(Promise::FsyncAttributes) => {
                self.same(format!("stat -c '%n: %a %u:%g' {path}"));
            }
            FactKind::SameXattrs if self.is_about(Promise::FsyncXattrs) => {
                let getfattr = self.getfattr;
                self.same(format!("{getfattr} -h -d --absolute-names {path}"));
            }
            FactKind::SameAttributes | FactKind::SameXattrs => {}
        }
        Ok(())
    }

    /// Whether the test is about a promise: one without findings is about all of them.
    fn is_about(&self, promise: Promise) -> bool {
        self.crash.findings.is_empty() || self.crash.has_broken(&[promise])
    }

    fn exists(&mut self, noun: Noun, name: &str, path: &str) -> Result<()> {
        let (test, words) = match noun {
            Noun::File => ("-f", "file"),
            Noun::Directory => ("-d", "directory"),
            Noun::Symlink => ("-L", "symlink"),
            Noun::Fifo => ("-p", "fifo"),
            Noun::Device => ("-e", "device"),
        };
        self.must(
            format!("[ {test} {path} ]"),
            format!("{words} {name} is missing"),
        );
        if noun == Noun::File && self.crash.has_broken(&[Promise::LinkCount]) {
            let root = self.commands.path(".")?;
            let count = format!("find {root} -xdev -samefile {path} | wc -l");
            self.must(
                format!("[ \"$(stat -c %h {path})\" -eq \"$({count})\" ]"),
                format!("the link count of {name} is not the number of its names"),
            );
        }
        Ok(())
    }

    fn same_content(&mut self, path: &str) {
        self.same(format!("md5sum {path}"));
        let space = [
            Promise::Preallocation,
            Promise::BlocksExact,
            Promise::HoleLayout,
        ];
        if self.crash.has_broken(&space) {
            self.same(format!("stat -c '%n: %b blocks' {path}"));
        }
    }
}

fn gone(path: &str) -> String {
    format!("[ ! -e {path} ] && [ ! -L {path} ]")
}
