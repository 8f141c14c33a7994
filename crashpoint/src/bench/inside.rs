//! What is measured by `crashpoint bench --machines` has two ends. This is the other one: the init of
//! a machine, and the process that answers in the floor.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use nix::sys::reboot::{RebootMode, reboot};

/// The arguments by which the program is told to be one of them.
pub(super) const INIT_COMMAND: &str = "__bench-machine";
pub(super) const ECHO_COMMAND: &str = "__bench-echo";

/// The length of a message of a kernel to its calendar, in bytes.
pub(super) const MESSAGE_BYTES: usize = 16;

/// Where machines hear each other.
const UDP_PORT: u16 = 4000;

/// Does what the program was started for by `crashpoint bench --machines`, if it was.
pub(crate) fn run_hidden() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let done = match arguments.next()?.as_str() {
        INIT_COMMAND => be_init(&arguments.next()?),
        ECHO_COMMAND => echo().context("answer"),
        _ => return None,
    };
    let Err(error) = done else {
        return Some(ExitCode::SUCCESS);
    };
    // That of a machine goes to its console.
    eprintln!("crashpoint: {error:#}");
    Some(ExitCode::from(2))
}

/// Sends back each message that comes, until none can come any more.
fn echo() -> io::Result<()> {
    let mut stream = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut message = [0; MESSAGE_BYTES];
    while stream.read_exact(&mut message).is_ok() {
        stream.write_all(&message)?;
    }
    Ok(())
}

/// The address of the machine with a number.
fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, number + 1)
}

/// Does what lines of the port say, and answers each with a line. Then the machine is switched off.
fn be_init(number: &str) -> anyhow::Result<()> {
    ::machine::mount_guest_system(Path::new("/dev/tty0"))?;
    ::cluster::set_up_machine(address(number.parse()?))?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, UDP_PORT))?;
    let mut port = ::cluster::open_port()?;
    port.write_all(b"ready\n")?;
    for line in BufReader::new(port.try_clone()?).lines() {
        let line = line?;
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["sleep", ms, times] => {
                let time = Duration::from_millis(ms.parse()?);
                (0..times.parse()?).for_each(|_: u32| std::thread::sleep(time));
            }
            ["send", to, times] => send(&socket, to.parse()?, times.parse()?)?,
            ["answer", times] => answer(&socket, times.parse()?)?,
            _ => break,
        }
        port.write_all(b"done\n")?;
    }
    // It returns only if it fails.
    match reboot(RebootMode::RB_POWER_OFF)? {}
}

/// Sends a datagram so many times, each after the last was answered.
fn send(socket: &UdpSocket, to: u8, times: u32) -> io::Result<()> {
    let mut datagram = [0; MESSAGE_BYTES];
    for _ in 0..times {
        socket.send_to(&datagram, (address(to), UDP_PORT))?;
        socket.recv_from(&mut datagram)?;
    }
    Ok(())
}

fn answer(socket: &UdpSocket, times: u32) -> io::Result<()> {
    let mut datagram = [0; MESSAGE_BYTES];
    for _ in 0..times {
        let (_, from) = socket.recv_from(&mut datagram)?;
        socket.send_to(&datagram, from)?;
    }
    Ok(())
}
