//! Links: cuts and heals of each direction by itself, at once, also of open connections.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cluster::{Member, between};
use nix::time::{ClockId, clock_gettime};
use simulation::Link;

use crate::Test;
use crate::lab::{Ends, Lab, await_that, tests};

pub(crate) const TESTS: &[Test] = &[
    (
        "links_are_cut_and_healed_by_direction_within_50_ms",
        directions,
    ),
    (
        "partitions_are_complete_partial_or_of_one_direction",
        partitions,
    ),
    ("links_of_many_are_cut_at_once", many),
    ("open_connections_stall_and_go_on", connections),
    ("links_lose_double_and_delay_in_one_direction", worse),
    ("much_passes_a_link_that_is_worse_and_is_whole", bulk),
];

/// Partition and heal take effect within that.
const WITHIN: Duration = Duration::from_millis(50);

/// So long after a cut nothing comes any more.
const LONG: Duration = Duration::from_millis(200);

const NODES: &str = r#"
    [[nodes]]
    names = ["a", "b", "c"]
    command = """python3 {tests}/peer.py {dir}/arrivals {address:a} {address:b} {address:c} \
        10.77.1.1 10.77.1.2"""
    ready = { log = "ready" }
"#;

const A: Member = Member::Node(0);
const B: Member = Member::Node(1);
const C: Member = Member::Node(2);
const X: Member = Member::Client(0);
const Y: Member = Member::Client(1);
const ALL: [Member; 5] = [A, B, C, X, Y];

/// Three nodes and two clients that all tell each other that they live.
struct Talkers {
    lab: Lab,
    _clients: Vec<Ends>,
}

impl Talkers {
    fn new() -> Self {
        let mut lab = Lab::new(NODES);
        assert_eq!(lab.cluster.add_client().expect("added"), 1);
        lab.start(true);
        let mut clients = Vec::new();
        for index in 0..2 {
            let log = lab.folder.path().join(format!("client-{index}"));
            let script = tests().join("peer.py");
            let mut words = vec!["python3".into(), script.display().to_string()];
            words.push(log.display().to_string());
            words.extend(ALL.map(address));
            let mut command = lab.cluster.client(index).command(&words);
            command.stdout(Stdio::null());
            clients.push(Ends(command.spawn().expect("started")));
        }
        let talkers = Self {
            lab,
            _clients: clients,
        };
        let everybody = pairs();
        await_that("everybody hears everybody", || {
            everybody
                .iter()
                .all(|pair| !talkers.heard(*pair).is_empty())
        });
        talkers
    }

    /// When what was sent that `to` heard of `from`.
    fn heard(&self, (from, to): (Member, Member)) -> Vec<u64> {
        let path = match to {
            Member::Node(index) => self.lab.directories[index].join("arrivals"),
            Member::Client(index) => self.lab.folder.path().join(format!("client-{index}")),
        };
        arrivals(&path).remove(&address(from)).unwrap_or_default()
    }

    /// Whether something came that was sent since a time.
    fn hears(&self, pair: (Member, Member), since_ns: u64) -> bool {
        self.heard(pair).last().is_some_and(|last| *last > since_ns)
    }

    /// Looks who hears whom from now on: all but these pairs.
    fn assert_cut(&self, cut: &[(Member, Member)]) {
        let since_ns = now_ns();
        let others: Vec<_> = pairs()
            .into_iter()
            .filter(|pair| !cut.contains(pair))
            .collect();
        await_that("all others hear each other", || {
            others.iter().all(|pair| self.hears(*pair, since_ns))
        });
        std::thread::sleep(LONG);
        for pair in cut {
            assert!(!self.hears(*pair, since_ns), "{pair:?} is cut");
        }
    }
}

fn pairs() -> Vec<(Member, Member)> {
    between(&ALL, &ALL)
        .filter(|(from, to)| from != to)
        .collect()
}

fn address(member: Member) -> String {
    match member {
        Member::Node(index) => format!("10.77.0.{}", index + 1),
        Member::Client(index) => format!("10.77.1.{}", index + 1),
    }
}

fn arrivals(path: &Path) -> BTreeMap<String, Vec<u64>> {
    let mut all = BTreeMap::<_, Vec<_>>::new();
    for line in fs::read_to_string(path).unwrap_or_default().lines() {
        // The last one may be written just now.
        if let Some((sender, time)) = line.split_once(' ') {
            all.entry(sender.into())
                .or_default()
                .extend(time.parse::<u64>());
        }
    }
    all
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// The median of some times, and the largest, in milliseconds.
fn told(times: &mut [u64]) -> String {
    times.sort_unstable();
    let ms = |ns: u64| ns as f64 / 1e6;
    let (median, last) = (times[times.len() / 2], times[times.len() - 1]);
    format!("{:.2} ms, at most {:.2} ms", ms(median), ms(last))
}

fn directions() {
    let talkers = Talkers::new();
    let (mut cuts, mut heals, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for pair in pairs().into_iter().step_by(2) {
        let link = talkers.lab.cluster.links().link(pair.0, pair.1);
        assert!(!link.is_cut());
        let begun_ns = now_ns();
        link.cut().expect("cut");
        calls.push(now_ns() - begun_ns);
        assert!(link.is_cut());
        let back = talkers.lab.cluster.links().link(pair.1, pair.0);
        assert!(!back.is_cut());
        std::thread::sleep(LONG);
        let last_ns = *talkers.heard(pair).last().expect("it was heard before");
        cuts.push(last_ns.saturating_sub(begun_ns));
        assert!(talkers.hears((pair.1, pair.0), begun_ns + LONG.as_nanos() as u64 / 2));
        let begun_ns = now_ns();
        link.heal().expect("healed");
        calls.push(now_ns() - begun_ns);
        await_that("it is heard again", || talkers.hears(pair, begun_ns));
        let heard = talkers.heard(pair);
        let first_ns = heard.iter().find(|time| **time > begun_ns).expect("heard");
        heals.push(first_ns - begun_ns);
    }
    let (cut, heal, call) = (told(&mut cuts), told(&mut heals), told(&mut calls));
    println!("the last after a cut: {cut}; the first after a heal: {heal}; a call: {call}");
    // On a busy machine somebody may have to wait for the processor.
    assert!(cuts[cuts.len() / 2] < WITHIN.as_nanos() as u64, "{cut}");
    assert!(heals[heals.len() / 2] < WITHIN.as_nanos() as u64, "{heal}");
    talkers.assert_cut(&[]);
}

fn partitions() {
    let mut talkers = Talkers::new();
    let (one, other) = ([A, X], [B, C, Y]);
    let complete: Vec<_> = between(&one, &other).chain(between(&other, &one)).collect();
    let partial: Vec<_> = between(&[A], &[B]).chain(between(&[B], &[A])).collect();
    let simplex: Vec<_> = between(&[A], &[B, C]).collect();
    for cut in [&complete, &partial, &simplex] {
        let begun = Instant::now();
        talkers
            .lab
            .cluster
            .links()
            .cut(cut.iter().copied())
            .expect("cut");
        println!("{} directions cut after {:?}", cut.len(), begun.elapsed());
        talkers.assert_cut(cut);
        talkers.lab.cluster.links().heal_all().expect("healed");
        talkers.assert_cut(&[]);
    }
    // A cut outlives what is started at its ends.
    talkers
        .lab
        .cluster
        .links()
        .cut(simplex.iter().copied())
        .expect("cut");
    for node in [0, 1] {
        if node == 0 {
            talkers.lab.cluster.node(node).kill();
        } else {
            talkers.lab.cluster.node(node).power_off().expect("off");
        }
        talkers
            .lab
            .cluster
            .node(node)
            .restart(&mut cluster::Spawn)
            .expect("started");
        talkers
            .lab
            .cluster
            .node(node)
            .wait_until_ready(&|| false)
            .expect("ready");
    }
    talkers.assert_cut(&simplex);
}

/// More than the kernel would have room for if it answered each.
fn many() {
    let lab = Lab::new(NODES);
    let members: Vec<_> = (0..18).map(Member::Node).collect();
    let all = between(&members, &members).filter(|(from, to)| from != to);
    let links = lab.cluster.links();
    links.cut(all).expect("cut");
    links.verify().expect("all are cut");
    links.heal_all().expect("healed");
    links.verify().expect("none is cut");
}

fn connections() {
    let lab = Lab::started(NODES);
    let said = lab.folder.path().join("said");
    let script = tests().join("talk.py").display().to_string();
    let words = ["python3", &script, "b"].map(str::to_owned);
    let mut command = lab.cluster.client(0).command(&words);
    command.stdout(File::create(&said).expect("made"));
    let ends = Ends(command.spawn().expect("started"));
    let lines = || fs::read_to_string(&said).expect("read");
    await_that("it is answered", || lines().contains("heard"));
    for (from, to) in [(X, B), (B, X)] {
        let link = lab.cluster.links().link(from, to);
        link.cut().expect("cut");
        // What was on its way.
        std::thread::sleep(WITHIN);
        let before = lines();
        std::thread::sleep(LONG * 2);
        assert_eq!(lines(), before, "{from:?} to {to:?} is cut");
        link.heal().expect("healed");
        let begun = Instant::now();
        await_that("it goes on", || lines().len() > before.len());
        println!(
            "the connection went on {:?} after the heal",
            begun.elapsed()
        );
    }
    // Each line is written at once.
    drop(ends);
    let said = lines();
    let numbers: Vec<_> = said
        .lines()
        .filter_map(|line| line.strip_prefix("heard "))
        .collect();
    let others = said.lines().find(|line| !line.starts_with("heard "));
    assert_eq!(others, None, "it did not end");
    let mut whole = numbers.iter().enumerate();
    assert!(
        whole.all(|(index, number)| index.to_string() == **number),
        "nothing is missing"
    );
}

/// A link on which a message takes that long, and nothing else happens.
fn slow(latency: Duration) -> Link {
    Link {
        latency_ns: latency.as_nanos() as u64,
        jitter_ns: 0,
        ..Link::USUAL
    }
}

fn worse() {
    let mut talkers = Talkers::new();
    let (there, back) = ((A, B), (B, A));
    let set = |talkers: &Talkers, link: Option<Link>| {
        let links = talkers.lab.cluster.links();
        links.set([there], link, 1).expect("set");
        links.verify().expect("as it should be");
    };
    // What was sent and has arrived since a time, in the order in which it arrived.
    let heard_since = |talkers: &Talkers, pair, since_ns: u64| -> Vec<u64> {
        let heard = talkers.heard(pair).into_iter();
        heard.filter(|sent_ns| *sent_ns > since_ns).collect()
    };
    let all_lost = Link {
        lost_per_million: 1_000_000,
        ..Link::USUAL
    };
    set(&talkers, Some(all_lost));
    talkers.assert_cut(&[there]);

    let delay = Duration::from_millis(400);
    set(&talkers, Some(slow(delay)));
    let since_ns = now_ns();
    std::thread::sleep(delay / 2);
    assert!(!talkers.hears(there, since_ns), "nothing can have arrived");
    assert!(
        talkers.hears(back, since_ns),
        "the other direction is as ever"
    );
    await_that("it arrives later", || talkers.hears(there, since_ns));
    assert!(now_ns() - since_ns >= delay.as_nanos() as u64);
    // A link that is cut as well loses all of it.
    talkers.lab.cluster.links().link(A, B).cut().expect("cut");
    talkers.assert_cut(&[there]);
    talkers
        .lab
        .cluster
        .links()
        .link(A, B)
        .heal()
        .expect("healed");
    talkers.lab.cluster.links().verify().expect("healed");
    // It is as slow when one of its ends has got a new cable.
    let node = talkers.lab.cluster.node(1);
    node.power_off().expect("off");
    node.restart(&mut cluster::Spawn).expect("started");
    node.wait_until_ready(&|| false).expect("ready");
    let since_ns = now_ns();
    await_that("it arrives again", || talkers.hears(there, since_ns));
    assert!(now_ns() - since_ns >= delay.as_nanos() as u64);

    let twice = Link {
        doubled_per_million: 1_000_000,
        ..Link::USUAL
    };
    set(&talkers, Some(twice));
    let since_ns = now_ns() + LONG.as_nanos() as u64;
    await_that("some arrives", || {
        heard_since(&talkers, there, since_ns).len() > 25
    });
    let mut heard = heard_since(&talkers, there, since_ns);
    let all = heard.len();
    heard.sort_unstable();
    heard.dedup();
    assert!(
        all.abs_diff(heard.len() * 2) <= 2,
        "{all} of {} sent",
        heard.len()
    );

    let disordered = Link {
        late_per_million: 300_000,
        lost_per_million: 300_000,
        ..slow(Duration::from_millis(10))
    };
    set(&talkers, Some(disordered));
    let since_ns = now_ns() + LONG.as_nanos() as u64;
    await_that("some arrives", || {
        heard_since(&talkers, there, since_ns).len() > 40
    });
    let (heard, usual) = (
        heard_since(&talkers, there, since_ns),
        heard_since(&talkers, (A, C), since_ns),
    );
    assert!(!heard.is_sorted(), "some is late");
    assert!(
        heard.len() < usual.len() * 9 / 10,
        "{} of {}",
        heard.len(),
        usual.len()
    );

    set(&talkers, None);
    talkers.assert_cut(&[]);
    // Once for all: what is worse, and what is cut.
    set(&talkers, Some(all_lost));
    let links = talkers.lab.cluster.links();
    links.link(B, A).cut().expect("cut");
    talkers.assert_cut(&[there, back]);
    links.heal_all().expect("healed");
    links.verify().expect("healed");
    talkers.assert_cut(&[]);
}

/// Senders leave it to their network cards to cut what is long, and to put checksums into it.
fn bulk() {
    const SENDS: &str = "\
import os, socket, sys, threading
sent = os.urandom(8 << 20)
peer = socket.create_connection(('b', 9000))
threading.Thread(target=lambda: (peer.sendall(sent), peer.shutdown(socket.SHUT_WR))).start()
got = b''.join(iter(lambda: peer.recv(1 << 16), b''))
print('whole' if got == sent else f'{len(got)} of {len(sent)}')
";
    let lab = Lab::started(NODES);
    let links = lab.cluster.links();
    let link = Link {
        doubled_per_million: 10_000,
        ..slow(Duration::from_millis(2))
    };
    links.set([(X, B), (B, X)], Some(link), 1).expect("set");
    let words = ["python3", "-c", SENDS].map(str::to_owned);
    let output = lab.cluster.client(0).command(&words).output().expect("ran");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        said.trim_end(),
        "whole",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    links.verify().expect("it still passes");
}
