//! Our mark: `crashpoint-PID`, with more after another dash.

use std::path::{Component, Path};
use std::time::SystemTime;

use local_fs::NAME_PREFIX;

use super::process;

/// A name of ours, whose it is, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) name: String,
    pub(super) owner_pid: i32,
    created: Option<SystemTime>,
}

impl Mark {
    /// The mark that a name carries, if it is one of ours.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let rest = name.strip_prefix(NAME_PREFIX)?;
        let pid = rest.split_once('-').map_or(rest, |(pid, _)| pid);
        let plain = !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit());
        let owner_pid = plain.then(|| pid.parse().ok()).flatten()?;
        Some(Self {
            name: name.to_owned(),
            owner_pid,
            created: None,
        })
    }

    /// The mark of a directory of ours. Those have something after the process id.
    pub(super) fn of_directory(path: &Path) -> Option<Self> {
        let mark = Self::of_name(path.file_name()?.to_str()?)?;
        let named_by_us = mark.name.strip_prefix(NAME_PREFIX)?.contains('-');
        let created = path
            .metadata()
            .and_then(|data| data.created().or_else(|_| data.modified()))
            .ok();
        named_by_us.then_some(Self { created, ..mark })
    }

    /// The mark of the directory of ours that a path is, or is in.
    pub(super) fn of_path(path: &Path) -> Option<Self> {
        path.components().find_map(|component| match component {
            Component::Normal(name) => Self::of_directory(Path::new(name)),
            _ => None,
        })
    }

    /// Whether its owner is gone. One that was started after the thing was made is another
    /// process with the same number.
    pub(super) fn is_abandoned(&self) -> bool {
        !process::is_alive_since(self.owner_pid, self.created)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_ours_only_with_a_process_id() {
        let pid = |name: &str| Mark::of_name(name).map(|mark| mark.owner_pid);
        assert_eq!(pid("crashpoint-12-aBc"), Some(12));
        assert_eq!(pid("crashpoint-12"), Some(12));
        for other in [
            "crashpoint",
            "crashpoint-",
            "crashpoint-notes",
            "crashpoint-12x-a",
            "crashpoint--1",
            "x-12-a",
        ] {
            assert_eq!(pid(other), None, "{other}");
        }
    }

    #[test]
    fn a_directory_of_ours_has_more_behind_the_process_id() {
        assert_eq!(Mark::of_directory(Path::new("/tmp/crashpoint-12")), None);
        assert!(Mark::of_path(Path::new("/tmp/crashpoint-12-x/worker-1/crashed")).is_some());
        assert_eq!(Mark::of_path(Path::new("/tmp/crashpoint-notes/12")), None);
    }

    #[test]
    fn what_a_living_process_made_is_not_abandoned() {
        let own = format!("crashpoint-{}-x", std::process::id());
        assert!(!Mark::of_name(&own).expect("a mark").is_abandoned());
        assert!(
            Mark::of_name("crashpoint-999999999-x")
                .expect("a mark")
                .is_abandoned()
        );
    }
}
