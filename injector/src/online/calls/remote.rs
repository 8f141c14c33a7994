//! The desk of a node as it is known outside of the node's machine. A desk goes with the node's command:
//! what was ordered and has not ended is ordered again when the command is started again.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;

use super::orders::{Order, Orders, Report, Spared, Watched};
use crate::online::plan::CallFault;

/// The desk of a node, in its machine.
pub(super) struct Remote {
    node: usize,
    known: RefCell<Known>,
}

/// What is known of it.
#[derive(Default)]
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
}

struct Watch {
    watched: Watched,
    fired: Option<String>,
}

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

    fn known(&self) -> RefMut<'_, Known> {
        self.known.borrow_mut()
    }

    /// The node's command is about to be started: what its desk is told first.
    pub(super) fn begin(&self) -> Vec<Order> {
        let mut known = self.known();
        known.is_there = true;
        known.orders.clear();
        let watches = known.watches.iter();
        let watches = watches.filter(|(_, watch)| watch.fired.is_none());
        let watches = watches.map(|(id, watch)| Order::Watch(*id, watch.watched.clone()));
        let rules = known.rules.iter().map(|(id, rule)| Order::Hit {
            id: *id,
            fault: rule.fault.clone(),
            seen: rule.seen,
            hits: rule.hits,
        });
        watches.chain(rules).collect()
    }

    /// The node's processes have all ended, and its desk is gone.
    pub(super) fn end(&self) {
        let mut known = self.known();
        known.is_there = false;
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
            Report::Answered(number) => known.answered = number,
            // The cluster looks for it: what the command has left may go on.
            Report::Ended(_) => {}
        }
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
        assert_eq!(remote.begin(), [Order::Watch(1, watched(0)), hit(0, 0)]);
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
        assert_eq!(remote.begin(), [Order::Watch(2, watched(2)), hit(3, 7)]);
    }

    #[test]
    fn who_is_told_to_spare_calls_has_to_say_so_unless_it_cannot() {
        let spared = |is_free| Some(Spared { hits: 0, is_free });
        let remote = Remote::new(0);
        remote.begin();
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
        remote.begin();
        remote.freeze(true);
        remote.hit(4, &fault());
        remote.spare(4);
        remote.ask();
        assert!(remote.has_answered(), "nobody can be asked");
        assert_eq!((remote.spared(4), remote.spared(4)), (spared(true), None));
    }

    #[test]
    fn orders_are_the_same_on_the_other_side() {
        let torn = crate::online::plan::Corruption::Torn;
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
