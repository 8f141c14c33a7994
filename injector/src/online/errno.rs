//! Errors of system calls, by their names.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An error that a call can come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno {
    name: &'static str,
    number: i32,
}

const fn errno(name: &'static str, number: i32) -> Errno {
    Errno { name, number }
}

/// Those that a plan can name: what disks, quotas, limits and permissions come to.
const ALL: [Errno; 17] = [
    errno("EIO", libc::EIO),
    errno("ENOSPC", libc::ENOSPC),
    errno("EDQUOT", libc::EDQUOT),
    errno("EROFS", libc::EROFS),
    errno("EFBIG", libc::EFBIG),
    errno("ENOMEM", libc::ENOMEM),
    errno("EMFILE", libc::EMFILE),
    errno("ENFILE", libc::ENFILE),
    errno("EACCES", libc::EACCES),
    errno("EPERM", libc::EPERM),
    errno("EBUSY", libc::EBUSY),
    errno("EEXIST", libc::EEXIST),
    errno("ENOENT", libc::ENOENT),
    errno("EINVAL", libc::EINVAL),
    errno("EINTR", libc::EINTR),
    errno("EAGAIN", libc::EAGAIN),
    errno("ESTALE", libc::ESTALE),
];

impl Serialize for Errno {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl<'de> Deserialize<'de> for Errno {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let none = || D::Error::custom(format!("{name} is no error that is known"));
        Self::named(&name).ok_or_else(none)
    }
}

impl Errno {
    /// The disk failed.
    pub const EIO: Self = errno("EIO", libc::EIO);

    /// The disk is full.
    pub const ENOSPC: Self = errno("ENOSPC", libc::ENOSPC);

    /// The one with a name, such as `EIO`.
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|known| known.name == name)
    }

    /// All names, for messages.
    pub fn names() -> String {
        ALL.map(|known| known.name).join(", ")
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Its number on this machine.
    pub fn number(self) -> i32 {
        self.number
    }
}
