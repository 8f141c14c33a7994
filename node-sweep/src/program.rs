use std::fs::Permissions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

use local_fs::enter_mount_namespace;
use machine::OtherBoot;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tempfile::TempDir;

use crate::check::{Check, Checker, Complaint, Verdict};
use crate::error::{Context as _, Error, Result};
use crate::mount_slot::MountSlot;
use crate::states::CrashState;
use crate::sweep::Subject;

/// One program's crash states: each is a directory that a check looks at.
pub struct Program {
    directory: PathBuf,
    /// The path that the program's directory had, if states are to be seen there.
    seen_at: Option<PathBuf>,
    /// Whether the thread has a mount namespace of its own by now, if it can have one.
    is_alone: bool,
    slot: MountSlot,
    check: Checker,
    /// It has seen nothing of what the other one has.
    second: Checker,
    /// How many states there were.
    count: u64,
}

impl Program {
    /// One that makes its directories in `directory`, which is nobody else's.
    ///
    /// With `seen_at`, a directory, the check sees each state at that path. A program may have
    /// written it into its files. That takes root, and a thread that does nothing else: it gets a
    /// mount namespace of its own.
    pub fn new(directory: PathBuf, seen_at: Option<PathBuf>, check: &Check) -> Self {
        let checker = || Checker::new(check.clone());
        Self {
            directory,
            seen_at,
            is_alone: false,
            slot: MountSlot::default(),
            check: checker(),
            second: checker(),
            count: 0,
        }
    }

    /// Gives the thread a mount namespace of its own, and the checks a machine that was started anew
    /// after the crash. Without root there is neither, and states have no other path than their own.
    fn be_alone(&mut self) -> Result<()> {
        if self.is_alone {
            return Ok(());
        }
        match enter_mount_namespace() {
            Ok(()) => self.boot()?,
            Err(error) if self.seen_at.is_some() => return Err(error.into()),
            Err(_) => {}
        }
        self.is_alone = true;
        Ok(())
    }

    fn boot(&mut self) -> Result<()> {
        match OtherBoot::new(&self.directory) {
            Ok(boot) => {
                let boot = Arc::new(boot);
                self.check.run_in(Arc::clone(&boot));
                self.second.run_in(boot);
                Ok(())
            }
            Err(error) => {
                tracing::warn!(%error, "checks run in this boot of the machine, with another boot id");
                machine::have_other_boot_id(&self.directory)
                    .doing(|| format!("make a boot id in {}", self.directory.display()))
            }
        }
    }

    /// Has what this thread starts see a directory at the path that the program knew.
    fn show(&self, data: &Path) -> Result<Option<Shown>> {
        let Some(seen_at) = &self.seen_at else {
            return Ok(None);
        };
        mount(
            Some(data),
            seen_at,
            None::<&str>,
            MsFlags::MS_BIND,
            None::<&str>,
        )
        .doing(|| format!("mount a crash state on {}", seen_at.display()))?;
        Ok(Some(Shown(seen_at.clone())))
    }
}

/// A mount, gone when it is dropped.
struct Shown(PathBuf);

impl Drop for Shown {
    fn drop(&mut self) {
        // A check that keeps running may still be in it.
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

impl Subject for Program {
    fn judge(&mut self, state: &CrashState, again: bool) -> Result<Verdict> {
        let mut verdict = Verdict::Ok;
        let shown = self.hold(state, |this, seen, acks| {
            let checker = if again {
                &mut this.second
            } else {
                &mut this.check
            };
            verdict = checker
                .judge(seen, acks)
                .doing(|| "run the check".into())?
                .without(seen);
            Ok::<_, Error>(())
        })?;
        Ok(match shown {
            Ok(()) => verdict,
            Err(why) => Verdict::Broken(vec![why].into()),
        })
    }
}

impl Program {
    /// Makes a state, and has it looked at: the program's directory, and the file of what was
    /// acknowledged. Both are gone afterwards. Returns why its file system cannot be mounted, if
    /// that is so.
    ///
    /// # Errors
    /// If it cannot be made, or `look` fails.
    pub fn hold<E: From<Error>>(
        &mut self,
        state: &CrashState,
        look: impl FnOnce(&mut Self, &Path, &Path) -> Result<(), E>,
    ) -> Result<Result<(), String>, E> {
        // A check that keeps running may remember what it saw of a directory.
        self.count += 1;
        let place = self.directory.join(self.count.to_string());
        fs::create_dir(&place).doing(|| format!("create {}", place.display()))?;
        let looked = self.look(state, &place, look);
        self.slot.put_away();
        remove_tree(&place)?;
        looked
    }

    fn look<E: From<Error>>(
        &mut self,
        state: &CrashState,
        place: &Path,
        look: impl FnOnce(&mut Self, &Path, &Path) -> Result<(), E>,
    ) -> Result<Result<(), String>, E> {
        let (data, acks) = (place.join("data"), place.join("acks"));
        let [disk] = &*state.disks else {
            return Err(Error::SeveralDirectories(state.disks.len()).into());
        };
        self.be_alone()?;
        let data = match self.slot.put(disk, &data)? {
            Ok(data) => data,
            Err(why) => return Ok(Err(why)),
        };
        fs::write(&acks, &state.acknowledged).doing(|| format!("write {}", acks.display()))?;
        let shown = self.show(&data)?;
        let seen = shown.as_ref().map_or(&data, |shown| &shown.0).clone();
        look(self, &seen, &acks)?;
        Ok(Ok(()))
    }
}

impl Verdict {
    /// The same with `{dir}` in place of the path that a state's directory happened to have.
    pub(crate) fn without(self, directory: &Path) -> Self {
        let directory = directory.to_string_lossy().into_owned();
        let replace = |words: String| words.replace(&directory, "{dir}");
        match self {
            Self::Ok => Self::Ok,
            Self::Broken(Complaint {
                words,
                log,
                tries,
                seen,
                ok_without_crash,
                of_rules,
            }) => Self::Broken(Complaint {
                words: words.into_iter().map(replace).collect(),
                log: log.map(replace),
                tries,
                seen,
                ok_without_crash,
                of_rules,
            }),
            Self::Inconclusive(why) => Self::Inconclusive(replace(why)),
        }
    }
}

/// Removes what a state was made in. Who is not root cannot remove from directories that must not be
/// written.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_tree(place: &Path) -> Result<()> {
    match fs::remove_dir_all(place) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open_up(place).and_then(|()| fs::remove_dir_all(place))
        }
        removed => removed,
    }
    .doing(|| format!("remove {}", place.display()))
}

/// Has all directories below one be such that their owner may change them.
fn open_up(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

/// What lies in a directory of crash states, so that it is known as one.
const SIGN: &str = "crash-states";

/// A directory in memory for crash states, or where `TMPDIR` says, gone when it is dropped. It
/// carries our mark, and is known to [`is_scratch`].
///
/// # Errors
/// If it cannot be made.
pub fn scratch() -> Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let parent = match env::var_os("TMPDIR") {
        Some(named) => named.into(),
        None if memory.is_dir() => memory.to_owned(),
        None => env::temp_dir(),
    };
    let prefix = format!("{}{}-", local_fs::NAME_PREFIX, std::process::id());
    let made = tempfile::Builder::new().prefix(&prefix).tempdir_in(&parent);
    let made = made.doing(|| format!("make a directory in {}", parent.display()))?;
    fs::write(made.path().join(SIGN), "")
        .doing(|| format!("write in {}", made.path().display()))?;
    Ok(made)
}

/// Whether a directory was made by [`scratch`]. Nobody but the sweep has a use for what is in it.
pub fn is_scratch(path: &Path) -> bool {
    path.join(SIGN).is_file()
}
