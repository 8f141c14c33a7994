//! Messages between two programs, and what is between them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeReader, Read, Write, pipe};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio, exit};
use std::thread;
use std::time::{Duration, Instant};

use crate::network::{Network, inside, make_all, names};
use crate::rounds::{Outcome, Place, SLICE, Table, pin, places, processor_of, processor_word};
use crate::{ANSWERER, ASKER};

/// What programs send.
#[derive(Debug, Clone, Copy)]
enum Traffic {
    Datagrams,
    Stream,
    Bulk,
}

const TRAFFICS: [Traffic; 3] = [Traffic::Datagrams, Traffic::Stream, Traffic::Bulk];

impl Traffic {
    fn title(self) -> &'static str {
        match self {
            Self::Datagrams => "UDP, 64 bytes there and back: round trips a second",
            Self::Stream => "TCP, 64 bytes there and back: round trips a second",
            Self::Bulk => "TCP, one direction, 64 KiB a write: MB a second",
        }
    }
}

const PORT: u16 = 4000;
const SMALL: usize = 64;
const LARGE: usize = 1 << 16;

/// Nothing between them takes that long, unless it is lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// Measures all ways, and prints the tables.
pub(crate) fn measure(rounds: usize) -> Outcome<()> {
    let (places, names) = (places()?, names());
    let networks = make_all(&places)?;
    let mut tables = TRAFFICS.map(|traffic| Table::new(traffic.title(), 0, &names));
    for _ in 0..rounds {
        for (number, table) in tables.iter_mut().enumerate() {
            for (row, of_places) in networks.iter().enumerate() {
                for (column, (network, place)) in of_places.iter().zip(places).enumerate() {
                    let figure = figure(number, network, place)
                        .map_err(|error| format!("{}, {}: {error}", names[row], place.name))?;
                    table.add(row, column, figure);
                }
            }
        }
    }
    for table in tables {
        table.print(&places)?;
    }
    Ok(())
}

fn figure(traffic: usize, network: &Network, place: Place) -> Outcome<f64> {
    let seen_before = network.seen();
    let answerer = Program::start(&network.answerer, ANSWERER, traffic, network.address, place)?;
    let mut asker = Program::start(&network.asker, ASKER, traffic, network.address, place)?;
    let line = asker.line()?;
    let figure = line
        .trim()
        .parse()
        .map_err(|_| "the program that asks has ended early")?;
    drop(answerer);
    network.verify()?;
    if seen_before.is_some() && network.seen() == seen_before {
        return Err("nothing was seen of the messages".into());
    }
    Ok(figure)
}

/// One of the two. It ends when this does.
struct Program {
    child: Child,
    said: BufReader<PipeReader>,
}

impl Program {
    fn start(
        namespace: &File,
        role: &str,
        traffic: usize,
        address: Ipv4Addr,
        place: Place,
    ) -> Outcome<Self> {
        let (said, says) = pipe()?;
        let child = inside(namespace, || {
            let mut command = Command::new("/proc/self/exe");
            command
                .args([role, &traffic.to_string(), &address.to_string()])
                .arg(processor_word(place.programs));
            Ok(command.stdin(Stdio::piped()).stdout(says).spawn()?)
        })?;
        let mut this = Self {
            child,
            said: BufReader::new(said),
        };
        if this.line()?.trim() != READY {
            return Err(format!("the {role} has ended early").into());
        }
        Ok(this)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended, and been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a program says first.
const READY: &str = "ready";

/// What both do first: they are told what, where, and on which processor, and end with who told it.
fn begin(words: &[&str]) -> Outcome<(Traffic, SocketAddr)> {
    let [traffic, address, processor] = words else {
        return Err("a program has three arguments".into());
    };
    pin(processor_of(processor))?;
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        exit(0);
    });
    let traffic = *TRAFFICS
        .get(traffic.parse::<usize>()?)
        .ok_or("no such traffic")?;
    Ok((traffic, SocketAddr::new(address.parse()?, PORT)))
}

fn say_ready() -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{READY}")?;
    out.flush()
}

/// Is the program that answers.
pub(crate) fn answer(words: &[&str]) -> Outcome<()> {
    let (traffic, address) = begin(words)?;
    let mut buffer = vec![0; LARGE];
    if let Traffic::Datagrams = traffic {
        let socket = UdpSocket::bind(address)?;
        say_ready()?;
        loop {
            let (length, from) = socket.recv_from(&mut buffer)?;
            socket.send_to(&buffer[..length], from)?;
        }
    }
    let listener = TcpListener::bind(address)?;
    say_ready()?;
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    if let Traffic::Stream = traffic {
        // Until whoever asks has closed it.
        while stream.read_exact(&mut buffer[..SMALL]).is_ok() {
            stream.write_all(&buffer[..SMALL])?;
        }
        return Ok(());
    }
    let mut received = 0u64;
    loop {
        match stream.read(&mut buffer)? {
            0 => break,
            length => received += length as u64,
        }
    }
    stream.write_all(&received.to_be_bytes())?;
    // Whoever asked closes it first.
    let _ = stream.read(&mut buffer);
    Ok(())
}

/// Is the program that asks, and says how much came back, or arrived, in a second.
pub(crate) fn ask(words: &[&str]) -> Outcome<()> {
    let (traffic, address) = begin(words)?;
    say_ready()?;
    let a_second = match traffic {
        Traffic::Datagrams => datagrams(address),
        Traffic::Stream => stream(address),
        Traffic::Bulk => bulk(address),
    }?;
    println!("{a_second}");
    Ok(())
}

/// So many turns in a slice, as of a second.
fn repeated(mut turn: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    // The first one asks who has the address.
    turn()?;
    let (begun, mut turns) = (Instant::now(), 0u32);
    while begun.elapsed() < SLICE {
        turn()?;
        turns += 1;
    }
    Ok(f64::from(turns) / begun.elapsed().as_secs_f64())
}

fn datagrams(address: SocketAddr) -> io::Result<f64> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = [0; SMALL];
    repeated(|| {
        socket.send(&buffer)?;
        socket.recv(&mut buffer).map(drop)
    })
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn stream(address: SocketAddr) -> io::Result<f64> {
    let mut stream = connect(address)?;
    let mut buffer = [0; SMALL];
    repeated(|| {
        stream.write_all(&buffer)?;
        stream.read_exact(&mut buffer)
    })
}

fn bulk(address: SocketAddr) -> io::Result<f64> {
    let mut stream = connect(address)?;
    let buffer = vec![b'x'; LARGE];
    let (begun, mut sent) = (Instant::now(), 0u64);
    while begun.elapsed() < SLICE {
        stream.write_all(&buffer)?;
        sent += LARGE as u64;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut received = [0; 8];
    stream.read_exact(&mut received)?;
    if u64::from_be_bytes(received) != sent {
        return Err(io::Error::other("not all has arrived"));
    }
    Ok(sent as f64 / 1e6 / begun.elapsed().as_secs_f64())
}
