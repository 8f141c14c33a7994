//! Calls that are counted, because what they do is not recorded.

use rustix::fs::fstat;

use super::files::FileCall;
use super::recording::{Entered, Next, Recording};
use tracer::Origin;
use tracer::calls::Call;
use tracer::lookup::text;
use tracer::{Entry, read_memory};

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
        let what = match call {
            Call::Submit => {
                let writes = self.submits_to_us(origin, entry);
                return if writes {
                    Next::ToExit(Entered::Unfollowed("io_submit".into()))
                } else {
                    Next::GoOn
                };
            }
            Call::Control => {
                let control = entry.arguments[1] as u32;
                if HARMLESS.contains(&control) {
                    return Next::GoOn;
                }
                if CLONES.contains(&control) {
                    "reflink".to_owned()
                } else {
                    format!("ioctl {control:#x}")
                }
            }
            _ => origin.row.name.to_owned(),
        };
        let Some((file, descriptor)) = self.own(origin, entry.arguments[0]) else {
            return Next::GoOn;
        };
        self.change(origin, Some(file), |file| FileCall::Unfollowed {
            file,
            copy: descriptor.copy,
            what,
        })
    }

    /// Whether one of the blocks of an io_submit(2) writes to a file of the node's or syncs it.
    pub(super) fn submits_to_us(&self, origin: &Origin, entry: &Entry) -> bool {
        let [_, count, blocks, ..] = entry.arguments;
        (0..count.min(1024)).any(|number| {
            let (mut place, mut block) = ([0; 8], [0; 64]);
            let read = read_memory(origin.thread, blocks + number * 8, &mut place)
                .and_then(|()| read_memory(origin.thread, u64::from_le_bytes(place), &mut block));
            // `struct iocb` of linux/aio_abi.h: 0 reads, 7 reads several, 5 polls.
            let operation = u16::from_le_bytes([block[16], block[17]]);
            let file = u32::from_le_bytes([block[20], block[21], block[22], block[23]]);
            read.is_ok()
                && !matches!(operation, 0 | 5 | 7)
                && self.own(origin, u64::from(file)).is_some()
        })
    }

    pub(super) fn is_ours(
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
