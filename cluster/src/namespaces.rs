//! The ground of today: each machine is namespaces of this kernel.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, Once};
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use simulation::{Carried, Ports};

use crate::error::{Context, Error, Result};
use crate::filter;
use crate::ground::{Direction, Ground, Impaired, Machine, MachineSpec, Passing};
use crate::hidden::{
    BUT, ENTER_COMMAND, EnterSpec, IS_DONE, NODE_COMMAND, NODE_IS_MADE, PAUSE, RESUME,
    temporary_directory,
};
use crate::network::{Connected, Network};
use crate::relay::{Relay, Running, Uncounted};
use crate::tally::Tally;

/// This program; what it is started as does not depend on whether its file is still there.
pub(crate) const OWN_PROGRAM: &str = "/proc/self/exe";

/// How long a port may take to answer; in a network like ours it does at once, or not at all.
const CONNECT_WITHIN: Duration = Duration::from_millis(200);

/// The machines of one cluster.
pub(crate) struct NamespaceGround {
    /// What is sent, if that is counted.
    tally: Mutex<Option<Tally>>,
    /// The links that are worse than cables, or have a limit.
    relays: Mutex<BTreeMap<Direction, Running>>,
    uncounted: Uncounted,
    /// The network of each machine. It outlives the processes in it: to make one takes the kernel
    /// longer than many a node takes to start, and to take it down longer still.
    connected: Mutex<BTreeMap<Ipv4Addr, Connected>>,
    network: Network,
}

impl NamespaceGround {
    /// One with nobody in it.
    ///
    /// # Errors
    /// Without root, or if the kernel lacks something.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            tally: Mutex::default(),
            relays: Mutex::default(),
            uncounted: Uncounted::default(),
            connected: Mutex::default(),
            network: Network::new()?,
        })
    }

    fn connected(&self) -> MutexGuard<'_, BTreeMap<Ipv4Addr, Connected>> {
        self.connected.lock().expect("no holder panics")
    }

    fn tally(&self) -> MutexGuard<'_, Option<Tally>> {
        self.tally.lock().expect("no holder panics")
    }

    fn relays(&self) -> MutexGuard<'_, BTreeMap<Direction, Running>> {
        self.relays.lock().expect("no holder panics")
    }

    /// Opens a link. There is none to a node without power: its cable is gone.
    fn open(&self, direction: Direction, passing: &Passing) -> Result<Relay> {
        let connected = self.connected();
        let mut ends = [direction.0, direction.1].into_iter();
        if let Some(off) = ends.find(|end| !connected.contains_key(end)) {
            let what = format!("{off} has no power");
            return Err(io::Error::other(what)).doing(|| passing.doing().into());
        }
        Relay::open(&self.network, direction, passing.clone(), &self.uncounted)
    }
}

impl Ground for NamespaceGround {
    fn plug_in(&self, address: Ipv4Addr) -> Result<()> {
        let connected = self.network.connect(address)?;
        self.connected().insert(address, connected);
        if let Some(tally) = &mut *self.tally() {
            tally.follow(&self.network, address)?;
        }
        // Their ends were those of the devices that it had before.
        let mut relays = self.relays();
        // One to a node without power waits for that.
        let is_there = |end: &Ipv4Addr| self.connected().contains_key(end);
        let its = relays.keys().filter(|(from, to)| {
            (*from == address || *to == address) && is_there(from) && is_there(to)
        });
        let its: Vec<_> = its.copied().collect();
        for direction in its {
            // No frame counts twice: the old one ends before the new one begins.
            let Some(old) = relays.remove(&direction) else {
                continue;
            };
            let passing = old.passing.clone();
            drop(old);
            relays.insert(direction, self.open(direction, &passing)?.start()?);
        }
        Ok(())
    }

    fn unplug(&self, address: Ipv4Addr) -> Result<()> {
        // It is there at least as long as it is held here.
        let silenced = self.network.silence(address);
        self.connected().remove(&address);
        silenced
    }

    fn boot(&self, address: Ipv4Addr, spec: &MachineSpec) -> Result<Box<dyn Machine>> {
        let connected = self.connected();
        let network = connected.get(&address).expect("it was plugged in");
        Ok(Box::new(Namespaces::new(network, spec)?))
    }

    fn answers(&self, address: SocketAddr) -> Result<bool> {
        self.network
            .inside(|| Ok(TcpStream::connect_timeout(&address, CONNECT_WITHIN).is_ok()))
    }

    fn set_links(&self, links: &Impaired) -> Result<()> {
        let wanted = links.passing();
        let mut relays = self.relays();
        // What fails leaves everything as it is.
        let is_same = |direction, passing: &Passing| {
            relays
                .get(direction)
                .is_some_and(|relay: &Running| relay.passing == *passing)
        };
        let new = wanted
            .iter()
            .filter(|(direction, passing)| !is_same(direction, passing));
        let opened =
            new.map(|(direction, passing)| Ok((*direction, self.open(*direction, passing)?)));
        let opened = opened.collect::<Result<Vec<_>>>()?;
        // Before the bridge passes the same: nothing comes twice that should not.
        relays.retain(|direction, relay| wanted.get(direction) == Some(&relay.passing));
        self.network
            .inside(|| filter::drop_only(&links.directions()))?;
        for (direction, relay) in opened {
            relays.insert(direction, relay.start()?);
        }
        Ok(())
    }

    fn verify_links(&self, links: &Impaired) -> Result<()> {
        self.network
            .inside(|| filter::verify(&links.directions()))?;
        let relays = self.relays();
        let passing = links.passing();
        let is_right = relays.len() == passing.len()
            && passing.iter().all(|(direction, passing)| {
                let relay = relays.get(direction);
                relay.is_some_and(|relay| relay.is_alive() && relay.passing == *passing)
            });
        if is_right {
            return Ok(());
        }
        let what = "a link that is worse, or has a limit, does not pass what it is to pass";
        Err(io::Error::other(what)).doing(|| "look after links".into())
    }

    fn count(&self) -> Result<()> {
        let mut tally = Tally::new(&self.uncounted);
        for address in self.connected().keys() {
            tally.follow(&self.network, *address)?;
        }
        *self.tally() = Some(tally);
        Ok(())
    }

    fn uncounted(&self) -> u64 {
        self.uncounted.load(Ordering::Relaxed)
    }

    fn carried(&self, direction: Direction) -> Carried {
        let tally = self.tally();
        tally
            .as_ref()
            .map_or_else(Carried::default, |tally| tally.carried(direction))
    }

    fn carried_by_ports(&self) -> Vec<(Direction, Ports, Carried)> {
        let tally = self.tally();
        tally
            .as_ref()
            .map_or_else(Vec::new, Tally::carried_by_ports)
    }
}

/// The namespaces of one node, and its first process, which keeps them. When this is dropped all
/// processes in them are killed, and the rest goes with the last of them; the network is another's.
#[derive(Debug)]
pub(crate) struct Namespaces {
    first: Child,
}

/// Says why nodes share a directory, which is the same of each of them.
fn tell_once(why: &str) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        tracing::warn!(
            "nodes share the temporary directories of this machine, and what they order through these is not \
             recorded: {why}"
        );
    });
}

impl Namespaces {
    /// Makes them, but for that of the network, which is there.
    ///
    /// # Errors
    /// Without root, or if the kernel lacks something.
    pub(crate) fn new(network: &Connected, spec: &MachineSpec) -> Result<Self> {
        let this = network.inside(|| {
            unshare(CloneFlags::CLONE_NEWPID).doing(|| "make a process namespace".into())?;
            let mut command = Command::new(OWN_PROGRAM);
            command.arg(NODE_COMMAND).process_group(0);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command
                .spawn()
                .map(|first| Self { first })
                .doing(|| "start a node's first process".into())
        })?;
        this.make(spec)
    }

    fn make(mut self, spec: &MachineSpec) -> Result<Self> {
        let mut line = serde_json::to_string(spec).expect("it is plain data");
        line.push('\n');
        let mut answer = String::new();
        let input = self.first.stdin.as_mut().expect("piped");
        let told = input.write_all(line.as_bytes()).and_then(|()| {
            BufReader::new(self.first.stdout.as_mut().expect("piped")).read_line(&mut answer)
        });
        told.doing(|| format!("speak with the first process of {}", spec.name))?;
        let (made, but) = answer
            .trim_end()
            .split_once(BUT)
            .unwrap_or((answer.trim_end(), ""));
        match made {
            NODE_IS_MADE => {
                if !but.is_empty() {
                    tell_once(but);
                }
                Ok(self)
            }
            "" => Err(Error::Command {
                whose: spec.name.clone(),
                what: "ended before it was made".into(),
            }),
            why => Err(Error::Command {
                whose: spec.name.clone(),
                what: format!("cannot be made: {why}"),
            }),
        }
    }

    /// Has the first process do something with all others.
    fn ask(&mut self, what: &str) -> Result<()> {
        let mut answer = String::new();
        let asked = writeln!(self.first.stdin.as_mut().expect("piped"), "{what}").and_then(|()| {
            BufReader::new(self.first.stdout.as_mut().expect("piped")).read_line(&mut answer)
        });
        let asked = asked.and_then(|_| match answer.trim_end() {
            IS_DONE => Ok(()),
            "" => Err(io::Error::other("its first process has ended")),
            why => Err(io::Error::other(why.to_owned())),
        });
        asked.doing(|| format!("{what} all processes of a node"))
    }
}

impl Machine for Namespaces {
    fn pid(&self) -> u32 {
        self.first.id()
    }

    fn command(&self, words: &[String], directory: &Path, user: Option<&str>) -> Command {
        let spec = EnterSpec {
            directory: directory.to_owned(),
            user: user.map(str::to_owned),
        };
        let mut command = Command::new(OWN_PROGRAM);
        command.arg(ENTER_COMMAND).arg(self.pid().to_string());
        command
            .arg(serde_json::to_string(&spec).expect("it is plain data"))
            .args(words);
        // Ctrl-C is for us, who then stop the node.
        command
            .process_group(0)
            .env("TMPDIR", temporary_directory())
            .stdin(Stdio::null());
        command
    }

    fn kill(&mut self) {
        let _ = self.first.kill();
    }

    fn pause(&mut self) -> Result<()> {
        self.ask(PAUSE)
    }

    fn resume(&mut self) -> Result<()> {
        self.ask(RESUME)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        let _ = self.first.kill();
        // The kernel lets it go only when everybody else in its process namespace has ended.
        let _ = self.first.wait();
    }
}
