use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::Result;
use crate::error::Context;

/// A record of `/dev/kmsg`; the format is that of Documentation/ABI/testing/dev-kmsg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelMessage {
    /// 0 (emergency) to 7 (debug).
    pub level: u8,
    /// The text of its first line.
    pub text: String,
}

impl KernelMessage {
    /// The level of errors; lower ones are worse.
    pub const ERROR: u8 = 3;

    /// The level of warnings.
    pub const WARNING: u8 = 4;

    /// Whether it is about a block device (`loop3`), and not about `loop33`.
    pub fn is_about(&self, device: &str) -> bool {
        self.mentions(device).next().is_some()
    }

    /// Its text with `disk` for the name of a block device, which is another one in the next run.
    pub fn text_without(&self, device: &str) -> String {
        let mut text = self.text.clone();
        for at in self.mentions(device).collect::<Vec<_>>().into_iter().rev() {
            text.replace_range(at..at + device.len(), "disk");
        }
        text
    }

    /// Where it names a block device.
    fn mentions(&self, device: &str) -> impl Iterator<Item = usize> {
        let ends = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_digit());
        let found = self
            .text
            .match_indices(device)
            .filter(move |(at, name)| ends(&self.text[at + name.len()..]));
        found.map(|(at, _)| at)
    }

    /// Whether it starts the report of a bug or a failed assertion, which names no device.
    pub fn is_stack_trace(&self) -> bool {
        const STARTS: [&str; 9] = [
            "WARNING: ",
            "BUG: ",
            "kernel BUG at",
            "Oops: ",
            "general protection fault",
            "XFS: Assertion failed",
            "UBSAN: ",
            // arm64 says so what others call an oops.
            "Internal error: ",
            "Unable to handle kernel",
        ];
        STARTS.iter().any(|start| self.text.starts_with(start))
    }
}

/// What the kernel logged.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct KernelMessages {
    /// As far as it could be read, in order.
    pub messages: Vec<KernelMessage>,
    /// There were others, which newer ones had overwritten.
    pub some_lost: bool,
}

/// The kernel's log from the moment it was opened, or last read.
#[derive(Debug)]
pub struct KernelLog {
    file: File,
}

impl KernelLog {
    /// Opens it at its end.
    ///
    /// # Errors
    /// Without the right to read `/dev/kmsg`.
    pub fn open() -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
            .open(Path::new("/dev/kmsg"))
            .doing(|| "open the kernel's log, /dev/kmsg")?;
        let mut this = Self { file };
        this.skip()?;
        Ok(this)
    }

    /// Passes over what was logged until now.
    ///
    /// # Errors
    /// If it cannot be sought in.
    pub fn skip(&mut self) -> Result<()> {
        self.file
            .seek(SeekFrom::End(0))
            .doing(|| "go to the end of the kernel's log")
            .map(drop)
    }

    /// What was logged since the last call.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&mut self) -> Result<KernelMessages> {
        read(&mut self.file)
    }
}

/// The messages of a log of which each read gives one.
fn read(log: &mut impl Read) -> Result<KernelMessages> {
    let mut found = KernelMessages::default();
    let mut record = [0; 8192];
    loop {
        match log.read(&mut record) {
            Ok(0) => return Ok(found),
            Ok(length) => found.messages.extend(parse(&record[..length])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(found),
            // Older records were overwritten before they were read; go on with what is there.
            Err(error) if error.raw_os_error() == Some(nix::libc::EPIPE) => found.some_lost = true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).doing(|| "read the kernel's log"),
        }
    }
}

fn parse(record: &[u8]) -> Option<KernelMessage> {
    let record = String::from_utf8_lossy(record);
    let (prefix, rest) = record.split_once(';')?;
    let priority: u32 = prefix.split(',').next()?.parse().ok()?;
    let text = rest.lines().next().unwrap_or_default().to_owned();
    Some(KernelMessage {
        level: (priority & 7) as u8,
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_gives_its_level_and_first_line() {
        let record = b"3,1234,567890,-;XFS (loop0): Corruption detected\n SUBSYSTEM=block\n";
        let message = parse(record).expect("well formed");
        assert_eq!(
            message,
            KernelMessage {
                level: 3,
                text: "XFS (loop0): Corruption detected".into()
            }
        );
        assert_eq!(parse(b"nonsense"), None);
        assert!(message.is_about("loop0") && !message.is_about("loop"));
        assert_eq!(
            message.text_without("loop0"),
            "XFS (disk): Corruption detected"
        );
        assert_eq!(message.text_without("loop"), message.text);
    }

    #[test]
    fn reports_of_bugs_are_known_by_how_they_begin() {
        let is_one = |text: &str| {
            let (level, text) = (KernelMessage::ERROR, text.to_owned());
            KernelMessage { level, text }.is_stack_trace()
        };
        for text in [
            "WARNING: CPU: 1 PID: 2 at fs/inode.c:3 drop_nlink+0x4/0x5",
            "UBSAN: array-index-out-of-bounds in fs/jfs/jfs_dtree.c:3713:8",
            "Internal error: Oops: 0000000096000004 [#1] SMP",
            "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000008",
        ] {
            assert!(is_one(text), "{text}");
        }
        assert!(!is_one("EXT4-fs (loop0): mounted filesystem"));
    }

    /// A log that gives these answers, last to first.
    struct Log(Vec<io::Result<&'static [u8]>>);

    impl Read for Log {
        fn read(&mut self, record: &mut [u8]) -> io::Result<usize> {
            let end = || Err(io::ErrorKind::WouldBlock.into());
            self.0.pop().unwrap_or_else(end)?.read(record)
        }
    }

    #[test]
    fn what_was_overwritten_is_told_once() {
        let overwritten = io::Error::from_raw_os_error(nix::libc::EPIPE);
        let mut log = Log(vec![Ok(b"6,9,1,-;foo"), Err(overwritten)]);
        let said = read(&mut log).expect("readable");
        assert!(said.some_lost && said.messages.len() == 1, "{said:?}");
        assert_eq!(read(&mut log).expect("readable"), KernelMessages::default());
    }
}
