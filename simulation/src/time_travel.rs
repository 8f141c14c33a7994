//! The protocol of a kernel with its calendar, as include/uapi/linux/um_timetravel.h has it.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use nix::sys::memfd::{MFdFlags, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// The length of a message in bytes: operation and sequence number of 32 bits, time of 64.
const MESSAGE_BYTES: usize = 16;

/// The length of the memory that a kernel is offered at its start: more than it looks at.
const SHARED_BYTES: u64 = 8192;

/// The time that stands for none: the kernel's S64_MAX.
pub(crate) const NEVER_NS: u64 = i64::MAX as u64;

/// The number of a message that only a kernel with scripts/uml/8-forks.patch has.
const FORK: u32 = 100;

/// What a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// An answer; the time is what was asked for.
    Ack,
    /// The kernel begins.
    Start,
    /// It wants to run at a time.
    Request,
    /// It waits until it may run.
    Wait,
    /// It asks what time it is.
    Get,
    /// It says what time it is for it.
    Update,
    /// It may run now.
    Run,
    /// It may let time pass up to then without asking.
    FreeUntil,
    /// It asks for the time of day, in nanoseconds since 1970.
    GetTimeOfDay,
    /// It is to fork itself; the new kernel says that it is there, and that it is ready.
    Fork,
    /// One that only newer kernels have.
    Other(u32),
}

const OPERATIONS: [Operation; 9] = [
    Operation::Ack,
    Operation::Start,
    Operation::Request,
    Operation::Wait,
    Operation::Get,
    Operation::Update,
    Operation::Run,
    Operation::FreeUntil,
    Operation::GetTimeOfDay,
];

impl Operation {
    fn from_number(number: u32) -> Self {
        if number == FORK {
            return Self::Fork;
        }
        let known = OPERATIONS.get(number as usize).copied();
        known.unwrap_or(Self::Other(number))
    }

    fn number(self) -> u32 {
        match self {
            Self::Other(number) => number,
            Self::Fork => FORK,
            known => OPERATIONS
                .iter()
                .position(|operation| *operation == known)
                .expect("all others are there") as u32,
        }
    }
}

/// A message, in either direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) operation: Operation,
    /// An answer has that of what it answers.
    pub(crate) sequence: u32,
    pub(crate) time_ns: u64,
}

impl Message {
    /// One that is not an answer.
    pub(crate) fn new(operation: Operation, time_ns: u64) -> Self {
        Self {
            operation,
            sequence: 0,
            time_ns,
        }
    }

    /// The answer to this one.
    pub(crate) fn ack(self, time_ns: u64) -> Self {
        Self {
            operation: Operation::Ack,
            time_ns,
            ..self
        }
    }

    /// Reads the next.
    pub(crate) fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut bytes = [0; MESSAGE_BYTES];
        from.read_exact(&mut bytes)?;
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        Ok(Self {
            operation: Operation::from_number(word(0)),
            sequence: word(4),
            time_ns: u64::from_le_bytes(bytes[8..].try_into().expect("eight")),
        })
    }

    /// Writes messages, all at once.
    pub(crate) fn write(messages: &[Self], to: &mut impl Write) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(messages.len() * MESSAGE_BYTES);
        for message in messages {
            bytes.extend(message.operation.number().to_le_bytes());
            bytes.extend(message.sequence.to_le_bytes());
            bytes.extend(message.time_ns.to_le_bytes());
        }
        to.write_all(&bytes)
    }

    /// Answers the first message of a kernel. Linux 6.12 and newer take two descriptors from this
    /// answer, and what is on their stack if there are none: memory that they could share with the
    /// calendar, and a file for a log. This memory is of no version that they know, so they go on with
    /// messages. Older kernels do not see the descriptors.
    pub(crate) fn answer_start(self, to: &UnixStream) -> io::Result<()> {
        let memory = File::from(memfd_create("calendar", MFdFlags::MFD_CLOEXEC)?);
        memory.set_len(SHARED_BYTES)?;
        let log = File::options().write(true).open("/dev/null")?;
        self.ack_with(to, &[memory.as_fd(), log.as_fd()])
    }

    /// Answers a kernel that was forked and is there: with the file for what it says, and with its new
    /// working directory, where it finds its devices.
    pub(crate) fn answer_forked(
        self,
        to: &UnixStream,
        console: &File,
        directory: &File,
    ) -> io::Result<()> {
        self.ack_with(to, &[console.as_fd(), directory.as_fd()])
    }

    fn ack_with(self, to: &UnixStream, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut bytes = Vec::new();
        Self::write(&[self.ack(0)], &mut bytes)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let is_room = control.push(SendAncillaryMessage::ScmRights(descriptors));
        assert!(is_room, "the space is that of two");
        // So few bytes are sent whole.
        sendmsg(
            to,
            &[IoSlice::new(&bytes)],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

    use super::*;

    fn started() -> (UnixStream, Message) {
        let (kernel, calendar) = UnixStream::pair().expect("a pair");
        let start = Message {
            operation: Operation::Start,
            sequence: 7,
            time_ns: 1,
        };
        start.answer_start(&calendar).expect("answered");
        (kernel, start.ack(0))
    }

    #[test]
    fn the_answer_to_a_start_is_an_answer_to_kernels_that_take_no_descriptors() {
        let (mut kernel, answer) = started();
        assert_eq!(Message::read(&mut kernel).expect("read"), answer);
    }

    #[test]
    fn a_kernel_that_starts_gets_memory_of_no_version_and_a_log() {
        let (kernel, answer) = started();
        let mut bytes = [0; MESSAGE_BYTES];
        // As os_rcv_fd_msg() does.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [io::IoSliceMut::new(&mut bytes)];
        let read = recvmsg(&kernel, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC);
        assert_eq!(read.expect("received").bytes, MESSAGE_BYTES);
        assert_eq!(Message::read(&mut bytes.as_slice()).expect("read"), answer);
        let descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let descriptors: Vec<_> = descriptors.flatten().map(File::from).collect();
        let [memory, mut log] = descriptors.try_into().expect("two of them");
        let mut content = Vec::new();
        (&memory).read_to_end(&mut content).expect("read");
        assert_eq!(content, vec![0; SHARED_BYTES as usize]);
        log.write_all(b"a line").expect("it takes what is logged");
    }

    #[test]
    fn a_message_is_what_the_kernel_sends() {
        let mut bytes = Vec::new();
        let request = Message {
            operation: Operation::Request,
            sequence: 5,
            time_ns: NEVER_NS,
        };
        Message::write(&[request, request.ack(3)], &mut bytes).expect("written");
        let mut expected = vec![2, 0, 0, 0, 5, 0, 0, 0];
        expected.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        expected.extend([0, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes, expected);
        let mut rest = bytes.as_slice();
        assert_eq!(Message::read(&mut rest).expect("read"), request);
        assert_eq!(Message::read(&mut rest).expect("read"), request.ack(3));
        assert!(Message::read(&mut rest).is_err(), "nothing is left");
        assert_eq!(Operation::from_number(9), Operation::Other(9));
        assert_eq!(Operation::Other(9).number(), 9);
        assert_eq!(Operation::from_number(FORK), Operation::Fork);
        assert_eq!(Operation::Fork.number(), FORK);
    }
}
