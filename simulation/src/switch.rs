//! The network: a switch with a link to each machine.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::carried::{Carried, OfPorts, Ports};
use crate::chance::Chance;
use crate::limit::{Limit, Offered, Until};
use crate::pcap::SentFrame;
use crate::sent::Sent;

/// The address of a network card.
pub type HardwareAddress = [u8; 6];

/// The bit of an address that makes it one of a group: broadcast is one, too.
const GROUP: u8 = 1;

/// Where a frame says what it is, and what it says there if it is of ARP.
const ETHER_TYPE: Range<usize> = 12..14;
const ETHER_TYPE_ARP: [u8; 2] = [0x08, 0x06];

/// What the way from one machine to another is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// How long a frame takes, in nanoseconds. It must not be 0.
    pub latency_ns: u64,
    /// How much longer it may take, as the seed says. Frames overtake each other if that is longer
    /// than the time between them.
    pub jitter_ns: u64,
    /// How many of a million frames are lost.
    pub lost_per_million: u32,
    /// How many of a million come twice.
    pub doubled_per_million: u32,
    /// How many of a million take [`LATE_TIMES`] times as long, so that what is sent after them
    /// comes before them.
    pub late_per_million: u32,
}

/// How much longer a frame takes that is late.
pub const LATE_TIMES: u64 = 10;

impl Link {
    /// Two racks of a data centre.
    pub const USUAL: Self = Self {
        latency_ns: 200_000,
        jitter_ns: 50_000,
        lost_per_million: 0,
        doubled_per_million: 0,
        late_per_million: 0,
    };

    /// How long a frame takes each time that it comes: it comes not at all, once or twice.
    pub fn delays_ns(&self, chance: &mut Chance) -> Vec<u64> {
        if chance.happens(self.lost_per_million) {
            return Vec::new();
        }
        let times = 1 + usize::from(chance.happens(self.doubled_per_million));
        (0..times).map(|_| self.delay_ns(chance)).collect()
    }

    fn delay_ns(&self, chance: &mut Chance) -> u64 {
        let jitter_ns = match self.jitter_ns {
            0 => 0,
            most => chance.below(most + 1),
        };
        let is_late = chance.happens(self.late_per_million);
        let times = if is_late { LATE_TIMES } else { 1 };
        times * (self.latency_ns + jitter_ns)
    }
}

/// How fast a machine sends if nothing is said, in bits a second.
pub const BITS_PER_SECOND: u64 = 1_000_000_000;

const NS_OF_SECOND: u64 = 1_000_000_000;
const BITS_PER_BYTE: u64 = 8;

/// The switch.
#[derive(Debug, Clone)]
pub struct Switch {
    seed: u64,
    machines: Vec<Plug>,
    usual: Link,
    bits_per_second: u64,
    links: BTreeMap<(usize, usize), Link>,
    chances: BTreeMap<(usize, usize), Chance>,
    cuts: BTreeSet<(usize, usize)>,
    limited: Option<Limited>,
    /// What each has sent to another one for its programs, lost or not, by the ports that last.
    carried: Sent<(usize, usize)>,
    /// What has passed of that, if it was for one.
    passed: Sent<(usize, usize)>,
    /// What was sent, while that is kept.
    sent: Option<Vec<SentFrame>>,
    frames: u64,
    lost: u64,
}

/// What has passed on a way, by the ports that last.
pub type Passed = ((usize, usize), Ports, Carried);

/// Ways that are cut together once a limit is reached.
#[derive(Debug, Clone)]
pub struct Limited {
    /// These.
    pub cut: BTreeSet<(usize, usize)>,
    /// The ways on which is counted what passes.
    pub counted: BTreeSet<(usize, usize)>,
    /// What may pass.
    pub limit: Limit,
    /// Whether nobody was told yet that it was reached.
    is_news: bool,
}

/// A machine's end.
#[derive(Debug, Clone)]
struct Plug {
    name: String,
    address: HardwareAddress,
    /// Until when it is sending.
    busy_until_ns: u64,
}

/// What becomes of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OnItsWay {
    /// When the sender has it out of its hands.
    pub(crate) sent_ns: u64,
    /// When and where it arrives.
    pub(crate) arrivals: Vec<(u64, usize)>,
}

impl Switch {
    pub(crate) fn new(seed: u64, usual: Link, bits_per_second: u64) -> Self {
        Self {
            seed,
            machines: Vec::new(),
            usual,
            bits_per_second: bits_per_second.max(1),
            links: BTreeMap::new(),
            chances: BTreeMap::new(),
            cuts: BTreeSet::new(),
            limited: None,
            carried: Sent::default(),
            passed: Sent::default(),
            sent: None,
            frames: 0,
            lost: 0,
        }
    }

    pub(crate) fn plug_in(&mut self, name: &str, address: HardwareAddress) {
        self.machines.push(Plug {
            name: name.to_owned(),
            address,
            busy_until_ns: 0,
        });
    }

    /// Keeps all frames from now on, for [`Self::sent`].
    pub fn keep_frames(&mut self) {
        self.sent.get_or_insert_default();
    }

    /// The frames that were sent since they are kept, lost ones too, by time.
    pub fn sent(&self) -> Vec<SentFrame> {
        let mut sent = self.sent.clone().unwrap_or_default();
        // Whoever runs ahead comes first here, and by the machine's number elsewhere.
        sent.sort_by_key(|frame| (frame.time_ns, frame.from));
        sent
    }

    /// How many frames were sent.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// How many did not arrive, counted for each machine that they were for.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub(crate) fn count_lost(&mut self) {
        self.lost += 1;
    }

    /// Has the way from one machine to another be like that from the next frame on.
    pub fn set_link(&mut self, from: usize, to: usize, link: Link) {
        self.links.insert((from, to), link);
    }

    /// Has it be as ways usually are again.
    pub fn reset_link(&mut self, from: usize, to: usize) {
        self.links.remove(&(from, to));
    }

    /// What ways usually are like.
    pub fn usual(&self) -> Link {
        self.usual
    }

    /// Loses everything, silently, that is sent from one machine to another from now on, but for ARP:
    /// without it the other direction would end too when addresses are asked for again.
    pub fn cut(&mut self, from: usize, to: usize) {
        self.cuts.insert((from, to));
    }

    /// Undoes [`Self::cut`].
    pub fn heal(&mut self, from: usize, to: usize) {
        self.cuts.remove(&(from, to));
    }

    /// The directions that are cut.
    pub fn cuts(&self) -> &BTreeSet<(usize, usize)> {
        &self.cuts
    }

    /// Loses everything on these ways, but for ARP, once a limit is reached by what passes from now on where
    /// it is counted. There is one such limit at a time.
    pub fn limit(
        &mut self,
        cut: BTreeSet<(usize, usize)>,
        counted: BTreeSet<(usize, usize)>,
        until: Until,
    ) {
        self.limited = Some(Limited {
            cut,
            counted,
            limit: Limit::new(until),
            is_news: false,
        });
    }

    /// The same of one that begins with a message and has counted since so much had passed. Nothing was cut or
    /// limited since then.
    pub fn limit_since(
        &mut self,
        cut: BTreeSet<(usize, usize)>,
        counted: BTreeSet<(usize, usize)>,
        (nth, of): (u64, OfPorts),
        before: &[Passed],
    ) {
        let passed = self.passed_since(&counted, of, before);
        self.limited = Some(Limited {
            cut,
            counted,
            limit: Limit::new(Until::With(nth, of)).that_passed(passed),
            is_news: false,
        });
    }

    /// What has passed on these ways, with such ports, since so much had passed.
    pub fn passed_since(
        &self,
        counted: &BTreeSet<(usize, usize)>,
        of: OfPorts,
        before: &[Passed],
    ) -> Carried {
        let mut all = Carried::default();
        let meant = |(way, ports, _): &Passed| counted.contains(way) && of.has(*ports);
        for (way, ports, now) in self.passed_by_ports().filter(meant) {
            let mut before = before.iter();
            let before = before.find(|(other, at, _)| (*other, *at) == (way, ports));
            all += now.since(before.map(|(.., carried)| *carried).unwrap_or_default());
        }
        all
    }

    /// Undoes [`Self::limit`].
    pub fn lift_limit(&mut self) {
        self.limited = None;
    }

    /// The ways that have a limit, and what has passed.
    pub fn limited(&self) -> Option<&Limited> {
        self.limited.as_ref()
    }

    /// Whether a limit was reached with a message since this was last asked.
    pub(crate) fn take_news(&mut self) -> bool {
        let limited = self.limited.as_mut();
        limited.is_some_and(|limited| std::mem::take(&mut limited.is_news))
    }

    /// What one machine has sent to another one for its programs since the beginning, lost or not.
    pub fn carried(&self, from: usize, to: usize) -> Carried {
        self.carried.on((from, to))
    }

    /// What has passed from one machine to another one alone, by the ports that last: who sends, and to whom.
    pub fn passed_by_ports(&self) -> impl Iterator<Item = Passed> {
        self.passed.iter()
    }

    /// The shortest time in which anything gets from one machine to another: a machine that runs is
    /// not further ahead of the others, in nanoseconds.
    pub fn latency_ns_min(&self) -> u64 {
        let latencies = self.links.values().map(|link| link.latency_ns);
        latencies.chain([self.usual.latency_ns]).min().expect("one")
    }

    /// A machine sends a frame.
    pub(crate) fn send(&mut self, from: usize, frame: &[u8], now_ns: u64) -> OnItsWay {
        let bits = frame.len() as u64 * BITS_PER_BYTE;
        let plug = &mut self.machines[from];
        let sending_ns = bits * NS_OF_SECOND / self.bits_per_second;
        let sent_ns = plug.busy_until_ns.max(now_ns) + sending_ns;
        plug.busy_until_ns = sent_ns;
        self.frames += 1;
        if let Some(sent) = &mut self.sent {
            sent.push(SentFrame {
                time_ns: now_ns,
                from,
                frame: frame.to_vec(),
            });
        }
        let offered = Offered::new(frame, false);
        let arrivals = self.receivers(from, frame).into_iter();
        let arrivals = arrivals
            .flat_map(|to| {
                self.carried.add((from, to), &offered);
                let passes_cuts = is_arp(frame);
                let delays_ns = self.cross((from, to), now_ns, (offered, passes_cuts));
                let arrival = move |delay_ns: u64| (sent_ns + delay_ns, to);
                delays_ns.into_iter().map(arrival)
            })
            .collect();
        OnItsWay { sent_ns, arrivals }
    }

    /// A machine's card has nothing to send any more. So many frames that it had not sent do not arrive.
    pub(crate) fn reset_card(&mut self, machine: usize, now_ns: u64, unsent: u64) {
        let plug = &mut self.machines[machine];
        plug.busy_until_ns = plug.busy_until_ns.min(now_ns);
        self.lost += unsent;
    }

    /// Who is to get a frame.
    fn receivers(&self, from: usize, frame: &[u8]) -> Vec<usize> {
        let to = frame
            .get(..size_of::<HardwareAddress>())
            .unwrap_or_default();
        let is_group = to.first().is_some_and(|first| first & GROUP != 0);
        let others = self.machines.iter().enumerate();
        let others = others
            .filter(|(index, plug)| *index != from && (is_group || plug.address.as_slice() == to));
        others.map(|(index, _)| index).collect()
    }

    /// Whether a way is cut, or its limit reached.
    fn loses(&self, way: (usize, usize)) -> bool {
        let limited = self.limited.as_ref();
        self.cuts.contains(&way)
            || limited
                .is_some_and(|limited| limited.limit.is_reached() && limited.cut.contains(&way))
    }

    /// How long a frame takes to a machine that is sent now: it arrives not at all, once or twice.
    fn cross(
        &mut self,
        (from, to): (usize, usize),
        now_ns: u64,
        (offered, passes_cuts): (Offered, bool),
    ) -> Vec<u64> {
        if !passes_cuts && self.loses((from, to)) {
            self.lost += 1;
            return Vec::new();
        }
        let link = *self.links.get(&(from, to)).unwrap_or(&self.usual);
        let (seed, machines) = (self.seed, &self.machines);
        let chance = self.chances.entry((from, to)).or_insert_with(|| {
            let name = format!("link {} {}", machines[from].name, machines[to].name);
            Chance::new(seed, &name)
        });
        let delays_ns = link.delays_ns(chance);
        let passes =
            !delays_ns.is_empty() && (passes_cuts || self.admits((from, to), offered, now_ns));
        if passes {
            if !offered.to_several {
                self.passed.add((from, to), &offered);
            }
            return delays_ns;
        }
        self.lost += 1;
        Vec::new()
    }

    /// Whether a limit lets a frame pass on a way that is not cut.
    fn admits(&mut self, way: (usize, usize), offered: Offered, now_ns: u64) -> bool {
        let Some(limited) = &mut self.limited else {
            return true;
        };
        let (is_cut, counts) = (limited.cut.contains(&way), limited.counted.contains(&way));
        let was_reached = limited.limit.is_reached();
        let admits = limited.limit.admits(&Offered { counts, ..offered }, now_ns);
        limited.is_news |=
            !was_reached && limited.limit.is_reached() && limited.limit.is_with_a_message();
        admits || !is_cut
    }
}

/// Whether a frame asks who has an address, or answers that.
fn is_arp(frame: &[u8]) -> bool {
    frame.get(ETHER_TYPE) == Some(ETHER_TYPE_ARP.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carried::tests::{ipv4, udp};
    use crate::carried::{OfPorts, Port};
    use crate::limit::Amount;

    const ADDRESSES: [HardwareAddress; 3] =
        [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 3]];
    const STILL: Link = Link {
        latency_ns: 1000,
        jitter_ns: 0,
        lost_per_million: 0,
        doubled_per_million: 0,
        late_per_million: 0,
    };

    fn switch(link: Link) -> Switch {
        let mut switch = Switch::new(1, link, BITS_PER_SECOND);
        for (index, address) in ADDRESSES.into_iter().enumerate() {
            switch.plug_in(&format!("n{index}"), address);
        }
        switch
    }

    fn frame(to: HardwareAddress) -> Vec<u8> {
        [to.as_slice(), &[0; 54]].concat()
    }

    fn arrivals(switch: &mut Switch, from: usize, to: HardwareAddress) -> Vec<(u64, usize)> {
        switch.send(from, &frame(to), 0).arrivals
    }

    #[test]
    fn a_frame_goes_to_its_address_and_one_for_a_group_to_all_others() {
        let mut switch = switch(STILL);
        // 60 bytes take 480 ns, one frame after the other.
        assert_eq!(arrivals(&mut switch, 0, ADDRESSES[2]), [(1480, 2)]);
        assert_eq!(arrivals(&mut switch, 0, [0xff; 6]), [(1960, 1), (1960, 2)]);
        let multicast = [0x33, 0x33, 0, 0, 0, 1];
        assert_eq!(arrivals(&mut switch, 1, multicast), [(1480, 0), (1480, 2)]);
        assert_eq!(arrivals(&mut switch, 1, [2, 0, 0, 0, 0, 9]), [], "nobody's");
        assert_eq!(arrivals(&mut switch, 1, ADDRESSES[1]), [], "its own");
        assert_eq!((switch.frames(), switch.lost()), (5, 0));
    }

    #[test]
    fn a_cut_loses_one_direction_until_it_is_healed() {
        let mut switch = switch(STILL);
        switch.cut(0, 1);
        assert_eq!(arrivals(&mut switch, 0, ADDRESSES[1]), []);
        assert_eq!(arrivals(&mut switch, 1, ADDRESSES[0]).len(), 1);
        assert_eq!(
            arrivals(&mut switch, 0, [0xff; 6]).len(),
            1,
            "the third gets it"
        );
        assert_eq!(switch.lost(), 2);
        let mut asks = frame([0xff; 6]);
        asks[ETHER_TYPE].copy_from_slice(&ETHER_TYPE_ARP);
        assert_eq!(switch.send(0, &asks, 0).arrivals.len(), 2, "ARP passes");
        switch.heal(0, 1);
        assert_eq!(arrivals(&mut switch, 0, ADDRESSES[1]).len(), 1);
    }

    #[test]
    fn a_limit_is_of_all_its_ways_together_and_the_message_that_reaches_it_passes() {
        let mut switch = switch(STILL);
        let ways = BTreeSet::from([(0, 1), (2, 1)]);
        switch.limit(ways.clone(), ways, Until::After(Amount::Bytes(25)));
        let send = |switch: &mut Switch, from, to: usize| {
            let frame = udp(ADDRESSES[to], 10);
            switch.send(from, &frame, 0).arrivals.len()
        };
        assert_eq!(send(&mut switch, 0, 1), 1);
        assert_eq!(arrivals(&mut switch, 0, ADDRESSES[1]).len(), 1, "no bytes");
        assert_eq!(send(&mut switch, 2, 1), 1);
        assert_eq!(send(&mut switch, 0, 2), 1, "another way");
        assert_eq!(send(&mut switch, 0, 1), 1, "it reaches it");
        assert_eq!(send(&mut switch, 0, 1), 0);
        assert_eq!(send(&mut switch, 2, 1), 0);
        assert_eq!(arrivals(&mut switch, 2, ADDRESSES[1]), [], "nothing passes");
        assert_eq!(send(&mut switch, 0, 2), 1);
        let mut asks = frame([0xff; 6]);
        asks[ETHER_TYPE].copy_from_slice(&ETHER_TYPE_ARP);
        assert_eq!(switch.send(0, &asks, 0).arrivals.len(), 2, "ARP passes");
        let limit = &switch.limited().expect("there is one").limit;
        let passed = Carried {
            bytes: 30,
            messages: 3,
        };
        assert_eq!(limit.passed(), passed);
        let sent = switch.carried(0, 1);
        assert_eq!((sent.bytes, sent.messages), (30, 3), "lost ones too");
        switch.lift_limit();
        assert_eq!(send(&mut switch, 0, 1), 1);
    }

    #[test]
    fn a_limit_cuts_no_datagram_in_two() {
        let mut switch = switch(STILL);
        let way = BTreeSet::from([(0, 1)]);
        switch.limit(way.clone(), way, Until::After(Amount::Bytes(100)));
        let fragment = |switch: &mut Switch, now_ns, field: u16| {
            let frame = ipv4(ADDRESSES[1], (17, field), &[1; 80]);
            switch.send(0, &frame, now_ns).arrivals.len()
        };
        let more = 0x2000;
        assert_eq!(fragment(&mut switch, 1, more), 1);
        assert_eq!(fragment(&mut switch, 2, more | 0xa), 1, "beyond the limit");
        assert_eq!(fragment(&mut switch, 3, 20), 1, "the last one");
        assert_eq!(fragment(&mut switch, 4, more), 0);
        let limit = &switch.limited().expect("there is one").limit;
        let passed = Carried {
            bytes: 232,
            messages: 1,
        };
        assert_eq!((limit.passed(), limit.reached_ns()), (passed, Some(3)));
    }

    #[test]
    fn both_ways_are_lost_from_the_message_on_that_is_counted_on_one() {
        let mut switch = switch(STILL);
        let both = BTreeSet::from([(0, 1), (1, 0)]);
        let ports = OfPorts {
            from: Port::Any,
            to: Port::Is(0x0101),
        };
        let counted = BTreeSet::from([(0, 1)]);
        switch.limit(both, counted, Until::With(2, ports));
        let send = |switch: &mut Switch, from, to: usize| {
            let frame = udp(ADDRESSES[to], 10);
            switch.send(from, &frame, 0).arrivals.len()
        };
        assert_eq!(send(&mut switch, 0, 1), 1);
        assert_eq!(send(&mut switch, 1, 0), 1, "it does not count");
        assert_eq!(send(&mut switch, 1, 0), 1);
        assert!(!switch.take_news());
        assert_eq!(send(&mut switch, 0, 1), 0, "the second is lost");
        assert!(switch.take_news() && !switch.take_news());
        assert_eq!(send(&mut switch, 1, 0), 0);
        assert_eq!(send(&mut switch, 0, 2), 1);
        let to_all = udp([0xff; 6], 10);
        assert_eq!(switch.send(2, &to_all, 0).arrivals.len(), 2);
        let by_ports: Vec<_> = switch.passed_by_ports().collect();
        let sent = |way, messages| {
            let carried = Carried {
                bytes: messages * 10,
                messages,
            };
            let from = Some(0x0101);
            (way, Ports { from, to: from }, carried)
        };
        assert_eq!(
            by_ports,
            [sent((0, 1), 1), sent((0, 2), 1), sent((1, 0), 2)]
        );
    }

    #[test]
    fn what_is_cut_or_lost_by_its_link_does_not_count_for_a_limit() {
        let mut switch = switch(STILL);
        let way = BTreeSet::from([(0, 1)]);
        switch.limit(way.clone(), way, Until::After(Amount::Messages(1)));
        let send = |switch: &mut Switch| switch.send(0, &udp(ADDRESSES[1], 9), 0).arrivals.len();
        switch.cut(0, 1);
        assert_eq!(send(&mut switch), 0);
        switch.heal(0, 1);
        let bad = Link {
            lost_per_million: 1_000_000,
            ..STILL
        };
        switch.set_link(0, 1, bad);
        assert_eq!(send(&mut switch), 0);
        switch.reset_link(0, 1);
        assert_eq!(send(&mut switch), 1);
        assert_eq!(send(&mut switch), 0);
    }

    #[test]
    fn loss_doubling_and_jitter_are_those_of_the_seed() {
        let bad = Link {
            jitter_ns: 500_000,
            lost_per_million: 300_000,
            doubled_per_million: 300_000,
            ..STILL
        };
        let run = |seed: u64| -> Vec<_> {
            let mut switch = switch(bad);
            switch.seed = seed;
            (0..200)
                .map(|_| arrivals(&mut switch, 0, ADDRESSES[1]))
                .collect()
        };
        let first = run(1);
        assert_eq!(first, run(1));
        assert_ne!(first, run(2));
        let counts = [0, 1, 2].map(|times| first.iter().filter(|all| all.len() == times).count());
        assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
        let times: Vec<_> = first.iter().flatten().map(|(time, _)| *time).collect();
        assert!(!times.is_sorted(), "some overtake others");
    }

    #[test]
    fn a_frame_that_is_late_comes_after_others_and_a_slow_card_takes_longer() {
        let late = Link {
            late_per_million: 100_000,
            ..STILL
        };
        let mut switch = switch(late);
        let times: Vec<_> = (0..200)
            .map(|_| switch.send(0, &frame(ADDRESSES[1]), 0).arrivals[0].0)
            .collect();
        let took = (1..).map(|sent| sent * 480).zip(&times);
        let took: Vec<u64> = took.map(|(sent, time)| time - sent).collect();
        assert!(took.iter().all(|took| [1000, 10_000].contains(took)));
        let late = took.iter().filter(|took| **took == 10_000).count();
        assert!((5..40).contains(&late), "{late}");
        assert!(!times.is_sorted());
        let mut slow = Switch::new(1, STILL, BITS_PER_SECOND / 10);
        slow.plug_in("n0", ADDRESSES[0]);
        slow.plug_in("n1", ADDRESSES[1]);
        assert_eq!(arrivals(&mut slow, 0, ADDRESSES[1]), [(5800, 1)]);
    }

    #[test]
    fn a_card_that_was_reset_does_not_go_on_sending() {
        let mut switch = switch(STILL);
        for _ in 0..100 {
            switch.send(0, &frame(ADDRESSES[1]), 0);
        }
        switch.reset_card(0, 10_000, 80);
        assert_eq!(switch.lost(), 80);
        let sent = switch.send(0, &frame(ADDRESSES[1]), 10_000);
        assert_eq!(sent.sent_ns, 10_480);
        switch.reset_card(1, 10_000, 0);
        let sent = switch.send(1, &frame(ADDRESSES[0]), 20_000);
        assert_eq!(sent.sent_ns, 20_480);
    }

    #[test]
    fn the_shortest_way_bounds_how_far_anybody_may_run_ahead() {
        let mut switch = switch(STILL);
        assert_eq!(switch.latency_ns_min(), 1000);
        let fast = Link {
            latency_ns: 10,
            ..STILL
        };
        switch.set_link(2, 1, fast);
        assert_eq!(switch.latency_ns_min(), 10);
        assert_eq!(arrivals(&mut switch, 2, ADDRESSES[1]), [(490, 1)]);
        assert_eq!(arrivals(&mut switch, 1, ADDRESSES[2]), [(1480, 2)]);
    }
}
