//! The desk of a node as it is known outside of the node's machine. A desk goes with the node's command:
//! what was ordered and has not ended is ordered again when the command is started again.

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, HashMap};

use tracer::{Frame, StackTable};

use super::Tallied;
use super::desk::named_callers;
use super::orders::{Order, Orders, Report, Spared, Watched};
use super::tally::{Made, Tally, Times};
use crate::online::plan::CallFault;

/// The desk of a node, in its machine.
pub(super) struct Remote {
    node: usize,
    known: RefCell<Known>,
}

/// What is known of it.
#[derive(Clone, Default)]
struct Known {
    /// Whether the node's command was started, and has not been killed since.
    is_there: bool,
    /// Whether the node's machine stands still: then its desk says nothing.
    stands_still: bool,
    /// Whether its processes are stopped; its desk goes on.
    is_paused: bool,
    watches: BTreeMap<u64, Watch>,
    rules: BTreeMap<usize, Rule>,
    spared: BTreeMap<usize, Spared>,
    /// What is to be told.
    orders: Vec<Order>,
    /// How often an answer was asked for, and for which time it was given last.
    asked: u64,
    answered: u64,
    news: Vec<String>,
    counted: Counted,
    /// What the probe says that the node is, if calls are counted.
    role: Option<String>,
}

/// What is known of the calls of a node that are counted in its machine.
#[derive(Clone, Default)]
struct Counted {
    /// The number of the counting that calls are of.
    number: u64,
    /// When the desk that counts began to, in nanoseconds of the simulation.
    since_ns: u64,
    /// What desks have told of it.
    tally: Tally,
    stacks: StackTable,
    /// Whether a desk counts that has not told yet.
    is_untold: bool,
    /// Whether one has gone that had not.
    is_lost: bool,
}

#[derive(Clone)]
struct Watch {
    watched: Watched,
    fired: Option<String>,
}

#[derive(Clone)]
struct Rule {
    fault: CallFault,
    seen: u64,
    hits: u64,
}

impl Remote {
    pub(super) fn new(node: usize) -> Self {
        Self {
            node,
            known: RefCell::default(),
        }
    }

    /// The same desk in a machine that was forked: what becomes of one is nothing to the other.
    pub(super) fn forked(&self) -> Self {
        Self {
            node: self.node,
            known: RefCell::new(self.known().clone()),
        }
    }

    fn known(&self) -> RefMut<'_, Known> {
        self.known.borrow_mut()
    }

    /// The node's command is about to be started, at a time in nanoseconds of the simulation: what its
    /// desk is told first.
    pub(super) fn begin(&self, now_ns: u64) -> Vec<Order> {
        let mut known = self.known();
        known.is_there = true;
        known.orders.clear();
        let mut counts = Vec::new();
        if let Some(role) = &known.role {
            counts.push(Order::Role(Some(role.clone())));
        }
        if known.counted.tally.is_counting {
            counts.push(known.counted.begin(now_ns));
        }
        let watches = known.watches.iter();
        let watches = watches.filter(|(_, watch)| watch.fired.is_none());
        let watches = watches.map(|(id, watch)| Order::Watch(*id, watch.watched.clone()));
        let rules = known.rules.iter().map(|(id, rule)| Order::Hit {
            id: *id,
            fault: rule.fault.clone(),
            seen: rule.seen,
            hits: rule.hits,
        });
        counts.into_iter().chain(watches).chain(rules).collect()
    }

    /// From now on calls are counted, and none before. The time is in nanoseconds of the simulation.
    pub(super) fn begin_tally(&self, now_ns: u64) {
        let mut known = self.known();
        let number = known.counted.number + 1;
        known.counted = Counted {
            number,
            ..Counted::default()
        };
        known.counted.tally.begin();
        if known.is_there {
            let order = known.counted.begin(now_ns);
            known.orders.push(order);
        }
    }

    /// Calls are not counted any more, and the desk is to tell of those that were.
    pub(super) fn end_tally(&self) {
        let mut known = self.known();
        known.counted.tally.is_counting = false;
        known.order(Order::Tell);
    }

    /// The desk is about to go, and is to tell before what it has counted. Whether there is one that can.
    /// What is left of the node's processes makes no call any more then, as nobody would count it.
    pub(super) fn tell(&self) -> bool {
        let mut known = self.known();
        let tells = known.counted.is_untold && known.is_there;
        if tells {
            known.is_paused = true;
            known.orders.extend([Order::Pause(true), Order::Tell]);
        }
        tells
    }

    /// Whether calls were counted of which nobody has told.
    pub(super) fn has_lost_some(&self) -> bool {
        let known = self.known();
        known.counted.is_untold || known.counted.is_lost
    }

    /// The probe says that the node is that.
    pub(super) fn know_role(&self, role: Option<&str>) {
        let mut known = self.known();
        let role = role.map(str::to_owned);
        if known.role != role {
            known.role.clone_from(&role);
            known.order(Order::Role(role));
        }
    }

    /// The calls that were counted, each with the functions that made it if they are known.
    pub(super) fn tally(&self) -> Tallied {
        let known = self.known();
        let stacks = tracer::named(&known.counted.stacks);
        let callers: HashMap<_, _> = named_callers(&stacks).collect();
        let made = known.counted.tally.made.iter().map(|(made, times)| {
            let callers = callers.get(&made.site).cloned();
            (made.clone(), times.clone(), callers.unwrap_or_default())
        });
        made.collect()
    }

    /// The node's processes have all ended, and its desk is gone.
    pub(super) fn end(&self) {
        let mut known = self.known();
        known.is_there = false;
        known.counted.is_lost |= std::mem::take(&mut known.counted.is_untold);
        known.stands_still = false;
        known.is_paused = false;
        known.answered = known.asked;
        let spared = known.spared.values_mut();
        spared.for_each(|spared| spared.is_free = true);
    }

    /// The node's machine stands still from now on, and its desk with it, or not any more.
    pub(super) fn freeze(&self, is_frozen: bool) {
        self.known().stands_still = is_frozen;
    }

    /// Whether a fault is in place that it cannot be told to end: it does not do so before it goes on.
    pub(super) fn stands_still(&self, fault: usize) -> bool {
        let known = self.known();
        known.stands_still && known.rules.contains_key(&fault)
    }

    /// Takes what is to be told.
    pub(super) fn take_orders(&self) -> Vec<Order> {
        std::mem::take(&mut self.known().orders)
    }

    /// Asks for an answer, unless there is nobody who could give one.
    pub(super) fn ask(&self) {
        let mut known = self.known();
        if known.is_there && !known.stands_still {
            known.asked += 1;
            let order = Order::Answer(known.asked);
            known.orders.push(order);
        }
    }

    /// Whether there is the last answer that was asked for.
    pub(super) fn has_answered(&self) -> bool {
        let known = self.known();
        known.answered == known.asked
    }

    /// Takes in what the desk says.
    pub(super) fn hear(&self, report: Report) {
        let mut known = self.known();
        match report {
            Report::Seen(id, seen, fired) => {
                if let Some(watch) = known.watches.get_mut(&id) {
                    watch.watched.seen = seen;
                    watch.fired = fired;
                }
            }
            Report::Hit { id, seen, hits } => {
                if let Some(rule) = known.rules.get_mut(&id) {
                    (rule.seen, rule.hits) = (seen, hits);
                }
            }
            Report::News(words) => known.news.push(words),
            Report::Spared(id, spared) => drop(known.spared.insert(id, spared)),
            Report::Counted(number, made, times) => known.counted.take(number, made, &times),
            Report::Stack(site, stack) => known.counted.find(site, stack),
            Report::Told(number) if number == known.counted.number => {
                known.counted.is_untold = false;
            }
            Report::Answered(number) => known.answered = number,
            Report::Over => {
                // If it was to count once more, it had nothing to count.
                known.counted.is_untold = false;
                drop(known);
                self.end();
            }
            // Of a counting that is over; and for the end of a command the cluster looks: what that has
            // left may go on.
            Report::Told(_) | Report::Ended(_) => {}
        }
    }
}

impl Counted {
    /// A desk begins to count.
    fn begin(&mut self, now_ns: u64) -> Order {
        self.since_ns = now_ns;
        self.is_untold = true;
        Order::Count(self.number)
    }

    /// A desk has counted so many. Its times are since it began.
    fn take(&mut self, number: u64, made: Made, times: &Times) {
        if number == self.number {
            let first_ns = self.since_ns.saturating_add(times.first_ns);
            let times = times.clone();
            self.tally.add(made, Times { first_ns, ..times });
        }
    }

    fn find(&mut self, site: u64, stack: Vec<(String, u64)>) {
        let frames = stack.into_iter().map(|(module, address)| Frame {
            module: module.into(),
            address,
            function: None,
            source: None,
        });
        self.stacks.insert(site, frames.collect());
    }
}

impl Known {
    fn order(&mut self, order: Order) {
        if self.is_there {
            self.orders.push(order);
        }
    }
}

impl Orders for Remote {
    fn node(&self) -> usize {
        self.node
    }

    fn watch(&self, id: u64, watched: Watched) {
        let mut known = self.known();
        known.order(Order::Watch(id, watched.clone()));
        let fired = None;
        known.watches.insert(id, Watch { watched, fired });
    }

    fn fired(&self, id: u64) -> Option<String> {
        self.known().watches.get(&id)?.fired.clone()
    }

    fn unwatch(&self, id: u64) {
        let mut known = self.known();
        known.watches.remove(&id);
        known.order(Order::Unwatch(id));
    }

    fn hit(&self, id: usize, fault: &CallFault) {
        let mut known = self.known();
        let fault = fault.clone();
        let (seen, hits) = (0, 0);
        known.order(Order::Hit {
            id,
            fault: fault.clone(),
            seen,
            hits,
        });
        known.rules.insert(id, Rule { fault, seen, hits });
    }

    fn spare(&self, id: usize) {
        let mut known = self.known();
        let Some(rule) = known.rules.remove(&id) else {
            return;
        };
        let spared = Spared {
            hits: rule.hits,
            // Who stands still does not go on, whether it is held or not.
            is_free: !known.is_there || known.stands_still,
        };
        known.spared.insert(id, spared);
        known.order(Order::Spare(id));
    }

    fn spared(&self, id: usize) -> Option<Spared> {
        self.known().spared.remove(&id)
    }

    fn pause(&self, is_paused: bool) {
        let mut known = self.known();
        if std::mem::replace(&mut known.is_paused, is_paused) != is_paused {
            known.order(Order::Pause(is_paused));
        }
    }

    fn tick(&self) -> Vec<String> {
        std::mem::take(&mut self.known().news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::online::Errno;
    use crate::online::plan::{CallOf, Comes, Moment};

    fn of() -> CallOf {
        CallOf {
            call: "fsync".into(),
            path: None,
            site: None,
            nth: 3,
        }
    }

    fn fault() -> CallFault {
        CallFault {
            of: of(),
            once: false,
            comes: Comes::Fails(Errno::EIO),
        }
    }

    fn watched(seen: u64) -> Watched {
        Watched {
            of: of(),
            when: Moment::Before,
            holds: true,
            seen,
        }
    }

    fn hit(seen: u64, hits: u64) -> Order {
        let (id, fault) = (4, fault());
        Order::Hit {
            id,
            fault,
            seen,
            hits,
        }
    }

    #[test]
    fn a_new_desk_is_told_what_still_holds_and_what_was_counted() {
        let remote = Remote::new(0);
        remote.watch(1, watched(0));
        remote.hit(4, &fault());
        assert!(remote.take_orders().is_empty(), "there is nobody yet");
        assert_eq!(remote.begin(0), [Order::Watch(1, watched(0)), hit(0, 0)]);
        remote.watch(2, watched(0));
        assert_eq!(remote.take_orders(), [Order::Watch(2, watched(0))]);
        for report in [
            Report::Seen(1, 3, Some("is about to".into())),
            Report::Seen(2, 2, None),
            Report::Hit {
                id: 4,
                seen: 3,
                hits: 7,
            },
        ] {
            remote.hear(report);
        }
        remote.end();
        assert_eq!(remote.fired(1).as_deref(), Some("is about to"));
        assert_eq!(remote.begin(0), [Order::Watch(2, watched(2)), hit(3, 7)]);
    }

    #[test]
    fn who_is_told_to_spare_calls_has_to_say_so_unless_it_cannot() {
        let spared = |is_free| Some(Spared { hits: 0, is_free });
        let remote = Remote::new(0);
        remote.begin(0);
        remote.hit(4, &fault());
        remote.spare(4);
        remote.ask();
        assert!(!remote.has_answered());
        assert_eq!(remote.spared(4), spared(false));
        remote.hit(4, &fault());
        remote.spare(4);
        remote.hear(Report::Ended(0));
        assert!(!remote.has_answered(), "what it has left may be held");
        remote.end();
        assert!(remote.has_answered());
        assert_eq!(remote.spared(4), spared(true));
        remote.begin(0);
        remote.freeze(true);
        remote.hit(4, &fault());
        remote.spare(4);
        remote.ask();
        assert!(remote.has_answered(), "nobody can be asked");
        assert_eq!((remote.spared(4), remote.spared(4)), (spared(true), None));
    }

    fn counted(number: u64, first_ns: u64) -> Report {
        let made = Made {
            call: "fsync".into(),
            file: "log".into(),
            site: 7,
            role: None,
        };
        let times = Times {
            count: 2,
            failed: 1,
            first_ns,
            bytes_min: None,
            last_of_bytes: 0,
        };
        Report::Counted(number, made, times)
    }

    /// How often the only call was made that was counted, and when first.
    fn tally(remote: &Remote) -> Option<(u64, u64)> {
        let tally = remote.tally();
        assert!(tally.len() <= 1);
        tally
            .first()
            .map(|(_, times, _)| (times.count, times.first_ns))
    }

    #[test]
    fn a_tally_is_that_of_all_desks_since_it_began() {
        let remote = Remote::new(0);
        remote.begin_tally(10);
        assert_eq!(remote.begin(20), [Order::Count(1)]);
        remote.begin_tally(30);
        remote.know_role(Some("leader"));
        remote.know_role(Some("leader"));
        let role = Order::Role(Some("leader".into()));
        assert_eq!(remote.take_orders(), [Order::Count(2), role.clone()]);
        // Of what was counted before: it was on its way.
        remote.hear(counted(1, 3));
        remote.hear(Report::Told(1));
        assert_eq!(tally(&remote), None);
        remote.hear(counted(2, 5));
        remote.hear(Report::Told(2));
        remote.end();
        assert_eq!(remote.begin(100), [role, Order::Count(2)]);
        remote.end_tally();
        remote.hear(counted(2, 7));
        remote.hear(Report::Told(2));
        assert_eq!(
            (tally(&remote), remote.has_lost_some()),
            (Some((4, 35)), false)
        );
        remote.end();
        assert!(!remote.begin(200).contains(&Order::Count(2)));
    }

    #[test]
    fn a_desk_that_is_gone_before_it_told_is_missed() {
        let remote = Remote::new(0);
        remote.begin(0);
        assert!(!remote.tell(), "it counts nothing");
        remote.begin_tally(0);
        assert!(remote.tell());
        remote.end();
        assert!(remote.has_lost_some() && !remote.tell());
        remote.begin(0);
        remote.hear(Report::Told(1));
        assert!(remote.has_lost_some(), "another one has told");
        // What is counted from a fault on does not miss who was killed by it.
        remote.end();
        remote.begin_tally(0);
        assert!(!remote.has_lost_some());
    }

    /// Nothing is missed of a node that had ended when it was to count.
    #[test]
    fn a_desk_that_says_that_all_is_over_is_not_missed() {
        let remote = Remote::new(0);
        remote.begin_tally(0);
        remote.begin(0);
        remote.begin_tally(10);
        remote.hear(counted(1, 3));
        remote.hear(Report::Told(1));
        remote.hear(Report::Over);
        remote.end();
        assert!(!remote.has_lost_some());
        // Nor if there is another counting before it is known that the tracer has gone.
        remote.begin_tally(20);
        remote.end();
        assert!(!remote.has_lost_some());
        // What was told before is no such word.
        remote.begin(30);
        remote.hear(Report::Told(2));
        remote.end();
        assert!(remote.has_lost_some());
    }

    #[test]
    fn what_is_left_of_a_node_is_held_before_its_desk_tells() {
        let remote = Remote::new(0);
        remote.begin_tally(0);
        remote.begin(0);
        assert!(remote.tell());
        assert_eq!(remote.take_orders(), [Order::Pause(true), Order::Tell]);
        // The next command is not.
        remote.end();
        assert_eq!(remote.begin(0), [Order::Count(1)]);
        remote.pause(true);
        assert_eq!(remote.take_orders(), [Order::Pause(true)]);
    }

    #[test]
    fn absurd_numbers_of_a_guest_are_the_greatest() {
        let remote = Remote::new(0);
        remote.begin_tally(10);
        remote.begin(10);
        for _ in 0..2 {
            let Report::Counted(number, made, times) = counted(1, u64::MAX) else {
                unreachable!()
            };
            let count = u64::MAX;
            remote.hear(Report::Counted(number, made, Times { count, ..times }));
        }
        assert_eq!(tally(&remote), Some((u64::MAX, u64::MAX)));
    }

    #[test]
    fn orders_are_the_same_on_the_other_side() {
        let torn = block_dev::Corruption::Torn;
        for comes in [
            Comes::Fails(Errno::ENOSPC),
            Comes::Short(7),
            Comes::Slow(std::time::Duration::from_millis(1500)),
            Comes::Held(Some(Errno::EIO)),
            Comes::Corrupt(torn),
        ] {
            let fault = CallFault { comes, ..fault() };
            let (id, seen, hits) = (1, 2, 3);
            let order = Order::Hit {
                id,
                fault,
                seen,
                hits,
            };
            let line = serde_json::to_string(&order).expect("plain data");
            assert_eq!(serde_json::from_str::<Order>(&line).expect("read"), order);
        }
    }
}
