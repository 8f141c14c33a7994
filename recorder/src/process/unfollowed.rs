//! Calls that are counted, because what they do is not recorded.

use rustix::fs::fstat;

use super::changes::Change;
use super::names::Where;
use super::recording::{Entered, Next, Recording};
use tracer::calls::Call;
use tracer::lookup::text;
use tracer::{Entry, Origin};

/// Calls of ioctl(2) that change nothing of what is recorded: FIEMAP, FS_IOC_GETFLAGS,
/// FS_IOC_GETVERSION, FS_IOC_FSGETXATTR, FIDEDUPERANGE, FIFREEZE, FITHAW, FITRIM,
/// FS_IOC_GETFSLABEL, and those by which btrfs is asked for things.
const HARMLESS: [u32; 14] = [
    0xC020_660B,
    0x8008_6601,
    0x8008_7601,
    0x801C_581F,
    0xC018_9436,
    0xC004_5877,
    0xC004_5878,
    0xC018_5879,
    0x8100_9431,
    0xD000_9411,
    0xC070_9411,
    0x8400_941F,
    0xD000_941E,
    0xD000_9412,
];

/// FICLONE and FICLONERANGE.
const CLONES: [u32; 2] = [0x4004_9409, 0x4020_940D];

impl Recording {
    pub(super) fn enter_unfollowed(&mut self, origin: &Origin, entry: &Entry, call: Call) -> Next {
        let changes = match call {
            Call::UnfollowedPath { base, path } => self.is_ours(origin, entry, base, path),
            Call::SetOwner { .. } => self.changes_owner(origin, entry, call),
            _ => return self.enter_control(origin, entry),
        };
        if changes {
            Next::ToExit(Entered::Unfollowed(origin.row.name.into()))
        } else {
            Next::GoOn
        }
    }

    /// ioctl(2) of a file of the node's: counted, unless it changes nothing.
    fn enter_control(&mut self, origin: &Origin, entry: &Entry) -> Next {
        let control = entry.arguments[1] as u32;
        if HARMLESS.contains(&control) {
            return Next::GoOn;
        }
        let what = if CLONES.contains(&control) {
            trace_store::REFLINK.to_owned()
        } else {
            format!("ioctl {control:#x}")
        };
        let Some((file, descriptor)) = self.own(origin, entry.arguments[0]) else {
            return Next::GoOn;
        };
        self.change(origin, Some(file), |file| Change::Unfollowed {
            file,
            copy: descriptor.copy,
            what,
        })
    }

    /// Whether a call gives a file of the node's another owner. Owners are not recorded.
    fn changes_owner(&self, origin: &Origin, entry: &Entry, call: Call) -> bool {
        let Call::SetOwner {
            descriptor,
            base,
            path,
            owner,
            flags,
        } = call
        else {
            return false;
        };
        let arguments = &entry.arguments;
        let no_follow = libc::AT_SYMLINK_NOFOLLOW as u64;
        let follow = flags.is_none_or(|flags| arguments[flags] & no_follow == 0);
        let stat = if descriptor {
            self.own(origin, arguments[0])
                .map(|(_, descriptor)| descriptor.stat)
        } else {
            match self.locate(origin, entry, base, path, follow) {
                Where::Ours(located) => located.look(),
                _ => None,
            }
        };
        let changes = |wanted: u64, is: u32| wanted as u32 != u32::MAX && wanted as u32 != is;
        stat.is_some_and(|stat| {
            changes(arguments[owner], stat.st_uid) || changes(arguments[owner + 1], stat.st_gid)
        })
    }

    fn is_ours(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        base: Option<usize>,
        path: usize,
    ) -> bool {
        let Some(path) = text(origin.thread, entry.arguments[path]) else {
            return false;
        };
        let base = Self::base(origin, entry, base);
        let Some(tree) = &self.tree else { return false };
        if let Ok(stat) = self.paths.directory(base, &path).and_then(fstat) {
            return tree.find(&stat).is_some();
        }
        self.paths
            .place(base, &path, true)
            .is_some_and(|place| tree.find(&place.stat).is_some())
    }
}
