use std::path::Path;

use super::super::super::given::cluster_of;
use super::super::super::points::{CallPoint, MessagePoint, Pair, Point, RequestPoint};
use super::super::super::ran::{FaultCame, State};
use super::*;
use crate::laboratory::Judged;

fn file(client: &str) -> ClusterFile {
    let text = format!(
        "disk = \"ext4\"\n[[nodes]]\nnames = [\"a\", \"b\"]\ncommand = \"sh\"\n[[clients]]\nname = \"x\"\ncommand = \"sh\"\n{client}\n[probe]\ncommand = \"sh\"\nroles = [\"leader\"]\n"
    );
    cluster_of(&text)
}

fn collected() -> Collected {
    let seen = |call: &str, file: &str, role: Option<&str>, by_node: &[(&str, u64)]| SeenPoint {
        by_node: by_node
            .iter()
            .map(|(node, count)| ((*node).to_owned(), *count))
            .collect(),
        bytes_min: (call == "write").then_some(9),
        ..SeenPoint::of(Point::Call(CallPoint {
            call: call.into(),
            file: file.into(),
            site: "00000000000000ff".into(),
            role: role.map(str::to_owned),
        }))
    };
    Collected {
        points: vec![
            seen("write", "log/wal-#", None, &[("a", 3), ("b", 5)]),
            seen("fsync", "", Some("leader"), &[("a", 1)]),
        ],
        all_occurrences: false,
        failures_max: 1,
        order: Order::Novel,
        corrupt_reads: false,
    }
}

#[test]
fn every_plan_can_be_read_and_none_is_proposed_twice() {
    for client in ["", "endless = true"] {
        let file = file(client);
        let mut all = Exhaustive::new(&file, 3, &collected());
        let mut seen = BTreeSet::new();
        for index in 0..all.count().expect("an end") {
            let plan = all.propose(index, &[]).expect("there is one");
            let text = plan.to_string();
            assert_eq!(
                FaultPlan::parse(&text, Path::new("p"), &file).as_ref(),
                Ok(&plan),
                "{text}"
            );
            assert!(seen.insert(text));
        }
        // Seven failures of three writes and of one fsync: it has no short, and one for kills after it.
        assert_eq!(seen.len(), 3 * 7 + 7);
        assert!(all.propose(seen.len() as u64, &[]).is_none());
    }
}

#[test]
fn clients_have_the_same_seed_without_faults_as_with_them() {
    let file = file("");
    let mut all = Exhaustive::new(&file, 7, &collected());
    let with = all.propose(0, &[]).expect("there is one");
    assert_eq!((without_faults(&file, 7).seed, with.seed), (7, 7));
}

#[test]
fn each_failure_is_tried_at_each_point_before_any_is_at_another_occurrence() {
    let mut all = Exhaustive::new(&file(""), 0, &collected());
    let text = |all: &mut Exhaustive, index| all.propose(index, &[]).expect("one").to_string();
    let first = "\
seed = 0
within_s = 5.0
restart_after_s = 1.0

[[faults]]
at = { call = \"write\", path = \"./log/wal-#\", site = \"00000000000000ff\", node = \"a\" }
fault = \"kill\"
on = \"a\"
until = { after_s = 1.0 }
";
    assert_eq!(text(&mut all, 0), first);
    let second = text(&mut all, 1);
    assert!(
        second.contains("call = \"fsync\", path = \".\"") && second.contains("on = \"leader\"")
    );
    let is_of_first = |index| !text(&mut all, index).contains("nth");
    assert!((0..14).all(is_of_first));
    assert!(text(&mut all, 14).contains("node = \"b\""));
}

/// A run in which the first fault hit a node, with the points that came up after it.
fn ran(index: u64, hit: &str, points: Vec<SeenPoint>) -> InjectResult {
    let mut ran = Ran::without(&cluster::Error::Interrupted);
    ran.judged = Judged::Ok;
    ran.points = points;
    ran.faults.push(FaultCame {
        state: State::Undone,
        on: vec![hit.to_owned()],
        ..FaultCame::not_yet()
    });
    InjectResult {
        index,
        plan: String::new(),
        ran,
    }
}

fn in_recovery(call: &str, file: &str, role: Option<&str>, node: &str) -> SeenPoint {
    SeenPoint {
        by_node: [(node.to_owned(), 2)].into(),
        ..SeenPoint::of(Point::Call(CallPoint {
            call: call.into(),
            file: file.into(),
            site: String::new(),
            role: role.map(str::to_owned),
        }))
    }
}

#[test]
fn a_second_failure_is_at_a_call_after_the_first_and_calls_of_recovery_come_before_others() {
    let file = file("");
    let pairs = Collected {
        failures_max: 2,
        ..collected()
    };
    let mut all = Exhaustive::new(&file, 0, &pairs);
    let mut old = pairs.points[1].clone();
    old.by_node = [("b".to_owned(), 1)].into();
    let new = in_recovery("unlink", "log/wal-#", None, "a");
    let results = [ran(0, "a", vec![old, new])];
    let len = all.count().expect("known");
    let order: Vec<_> = all.order(&results, u64::MAX).collect();
    // Five failures of the unlink, and then seven of the fsync.
    assert_eq!(order.len() as u64, len + 5 + 7);
    assert_eq!(order[len as usize..][..2], [len, 2 * len]);
    let text = |all: &mut Exhaustive, index| all.propose(index, &results).expect("one").to_string();
    let first = text(&mut all, len);
    let second = "\
at = { call = \"unlink\", path = \"./log/wal-#\", node = \"hit\" }
fault = \"kill\"
on = \"hit\"
until = { after_s = 1.0 }
";
    assert!(first.ends_with(second), "{first}");
    assert_eq!(first.matches("[[faults]]").count(), 2);
    // The leader did not fall: it is the same one.
    let last = text(&mut all, 12 * len);
    assert!(
        last.contains("node = \"leader\"") && last.contains("hold = true"),
        "{last}"
    );
    assert!(all.propose(13 * len, &results).is_none() && all.propose(len + 1, &results).is_none());
    let read = FaultPlan::parse(&last, Path::new("p"), &file);
    assert_eq!(read.expect("a plan").to_string(), last);
}

#[test]
fn what_was_recovered_from_as_before_comes_later_unless_the_order_is_plain() {
    let point = || vec![in_recovery("unlink", "x", None, "a")];
    let other = vec![in_recovery("rename", "x", None, "a")];
    let mut results = [
        ran(0, "a", point()),
        ran(1, "a", point()),
        ran(2, "a", other),
    ];
    let order_of = |results: &[InjectResult], order| {
        let pairs = Collected {
            failures_max: 2,
            order,
            ..collected()
        };
        let all = Exhaustive::new(&file(""), 0, &pairs);
        let len = all.count().expect("known");
        let firsts = all.order(results, u64::MAX).filter(|index| *index >= len);
        firsts.map(|index| all.root(index)).collect::<Vec<_>>()
    };
    let order = |order| order_of(&results, order);
    let novel = order(Order::Novel);
    assert_eq!(novel[..4], [0, 2, 0, 2]);
    assert_eq!(novel[novel.len() - 5..], [1; 5]);
    assert_eq!(order(Order::Plain)[..4], [0, 1, 2, 0]);
    // How it was recovered from is not known where calls were lost.
    results[0].ran.has_lost_points = true;
    let novel = order_of(&results, Order::Novel);
    assert_eq!(novel[..4], [1, 2, 1, 2]);
    // What broke something, or came to nothing, is not gone on with.
    let mut missed = ran(0, "a", point());
    missed.ran.faults[0].state = State::NeverFired;
    let mut broken = ran(1, "a", point());
    broken.ran.judged = Judged::Broken {
        broken: vec!["it is".into()],
    };
    let pairs = Collected {
        failures_max: 2,
        ..collected()
    };
    let all = Exhaustive::new(&file(""), 0, &pairs);
    assert_eq!(
        Some(all.order(&[missed, broken], u64::MAX).count() as u64),
        all.count()
    );
}

/// An error that nobody minds shows when the power fails: on the node that had it, not on another
/// one that makes the next call.
#[test]
fn after_an_error_that_changed_nothing_the_power_of_that_node_fails_first() {
    let pairs = Collected {
        failures_max: 2,
        ..collected()
    };
    let mut all = Exhaustive::new(&file(""), 0, &pairs);
    let len = all.count().expect("known");
    let index_of = |failure| {
        let place = all.singles.iter().position(|one| one.failure == failure);
        place.expect("there is one") as u64
    };
    let (kill, eio) = (index_of(PointFailure::Kill), index_of(PointFailure::Eio));
    let after = |hit: &str| {
        let mut elsewhere = pairs.points[1].clone();
        elsewhere.by_node = [(if hit == "a" { "b" } else { "a" }.to_owned(), 1)].into();
        let mut here = pairs.points[0].clone();
        here.by_node = [(hit.to_owned(), 1)].into();
        vec![elsewhere, here]
    };
    let results = [ran(kill, "a", after("a")), ran(eio, "b", after("b"))];
    let order: Vec<_> = all.order(&results, u64::MAX).collect();
    assert_eq!(order[len as usize..][..2], [len + eio, len + kill]);
    let mut second = |index| {
        let plan = all.propose(index, &results).expect("one").to_string();
        let (_, second) = plan.rsplit_once("[[faults]]\n").expect("two");
        second.to_owned()
    };
    let first = second(len + eio);
    assert!(
        first.contains("node = \"hit\"") && first.contains("fault = \"power-loss\""),
        "{first}"
    );
    // After a kill there is nothing of that kind.
    let first = second(len + kill);
    assert!(
        first.contains("node = \"hit\"") && first.contains("fault = \"kill\""),
        "{first}"
    );
    // With the calls of recovery the node minded the error.
    let recovers = vec![in_recovery("unlink", "log/wal-#", None, "b")];
    let results = [ran(kill, "a", after("a")), ran(eio, "b", recovers)];
    let order: Vec<_> = all.order(&results, u64::MAX).collect();
    assert_eq!(order[len as usize..][..2], [len + kill, len + eio]);
}

/// A message of the leader to two others, which have the same role.
fn message() -> SeenPoint {
    let pair = |to: &str, times| Pair {
        from: "a".into(),
        to: to.into(),
        times,
    };
    SeenPoint {
        by_node: [("a".to_owned(), 5)].into(),
        by_pair: vec![pair("b", 5)],
        ..SeenPoint::of(Point::Message(MessagePoint {
            from: "leader".into(),
            to: "b".into(),
            from_port: None,
            to_port: Some(7000),
        }))
    }
}

#[test]
fn a_message_is_cut_off_and_its_sender_or_its_receiver_may_die() {
    let file = file("");
    let collected = Collected {
        points: vec![message()],
        ..collected()
    };
    let mut all = Exhaustive::new(&file, 0, &collected);
    // Six failures at the first, the last and the middle one.
    assert_eq!(all.count(), Some(18));
    let text = |all: &mut Exhaustive, index| all.propose(index, &[]).expect("one").to_string();
    let expected = "\
seed = 0
within_s = 5.0
restart_after_s = 1.0

[[faults]]
at = { time_s = 0.0 }
fault = \"partition\"
on = \"a\"
from = \"b\"
flow = \"out\"
with_message = { nth = 1, from = \"a\", to = \"b\", from_port = \"chosen\", to_port = 7000 }
until = { after_s = 3.0 }
";
    assert_eq!(text(&mut all, 0), expected);
    assert_eq!(text(&mut all, 1), expected.replace("flow = \"out\"\n", ""));
    assert_eq!(text(&mut all, 6), expected.replace("nth = 1", "nth = 5"));
    assert_eq!(text(&mut all, 12), expected.replace("nth = 1", "nth = 3"));
    let dies = expected.replace("after_s = 3.0", "after_s = 1.0");
    let then = "
[[faults]]
at = { after_s = 0.0 }
fault = \"kill\"
on = \"hit\"
until = { after_s = 1.0 }
";
    // Who is cut off is who dies.
    let receiver = dies.replace("on = \"a\"\nfrom = \"b\"", "on = \"b\"\nfrom = \"a\"");
    let receiver = receiver.replace("\"out\"", "\"in\"");
    assert_eq!(text(&mut all, 2), dies.clone() + then);
    assert_eq!(text(&mut all, 3), receiver.clone() + then);
    let then = then.replace("\"kill\"", "\"power-loss\"");
    let then = then.replace("\nuntil", "\nkeeps = \"flushed\"\nuntil");
    assert_eq!(text(&mut all, 4), dies + &then);
    assert_eq!(text(&mut all, 5), receiver + &then);
    for index in 0..18 {
        let text = text(&mut all, index);
        let read = FaultPlan::parse(&text, Path::new("p"), &file);
        assert_eq!(read.expect("a plan").to_string(), text);
    }
    let none = Exhaustive::new(&without_disks(), 0, &collected);
    assert_eq!(none.count(), Some(12));
    // A sender without data has no power to lose, and its receivers have.
    let pairs = vec![Pair {
        from: "d".into(),
        ..message().by_pair.remove(0)
    }];
    let of_d = SeenPoint {
        by_node: [("d".to_owned(), 5)].into(),
        by_pair: pairs,
        ..message()
    };
    let and_d = format!(
        "{}\n[[nodes]]\nname = \"d\"\ndata = false\ncommand = \"true\"\n",
        file.text
    );
    let disks = Disks::of(&cluster_of(&and_d));
    let failures = collected.failures(&of_d, &disks);
    let names: Vec<_> = failures.map(PointFailure::name).collect();
    assert_eq!(
        names,
        [
            "cut",
            "cut both ways",
            "cut and kill sender",
            "cut and kill receiver",
            "cut and power loss of receiver"
        ]
    );
}

/// Where a role is named, the other end is not a node that may have it in another run.
#[test]
fn both_ends_of_a_message_are_named_by_their_roles_or_none_is() {
    let both = file("")
        .text
        .replace("[\"leader\"]", "[\"leader\", \"follower\"]");
    let to_follower = |pairs: Vec<Pair>| {
        let Point::Message(point) = message().point else {
            panic!("it is a message");
        };
        let to = "follower".into();
        let collected = Collected {
            points: vec![SeenPoint {
                by_pair: pairs,
                ..SeenPoint::of(Point::Message(MessagePoint { to, ..point }))
            }],
            ..collected()
        };
        let mut all = Exhaustive::new(&cluster_of(&both), 0, &collected);
        all.propose(0, &[]).expect("one").to_string()
    };
    let pair = message().by_pair.remove(0);
    let by_role = to_follower(vec![pair.clone()]);
    let ends = "nth = 1, from = \"leader\", to = \"follower\", ";
    assert!(by_role.contains(ends), "{by_role}");
    let to = "c".to_owned();
    let by_name = to_follower(vec![pair.clone(), Pair { to, ..pair }]);
    let ends = "nth = 1, from = \"a\", to = \"b\", ";
    assert!(by_name.contains(ends), "{by_name}");
}

fn without_disks() -> ClusterFile {
    cluster_of(&file("").text.replace("disk = \"ext4\"\n", ""))
}

/// Messages are counted from when the first failure is in place, or its end, where a node has no link
/// before.
#[test]
fn a_message_after_a_first_failure_is_one_of_the_second_failures() {
    let pairs = Collected {
        failures_max: 2,
        ..collected()
    };
    let file = file("");
    let mut all = Exhaustive::new(&file, 0, &pairs);
    let len = all.count().expect("known");
    let loss = |one: &Single| one.failure == PointFailure::PowerLoss;
    let loss = all.singles.iter().position(loss).expect("there is one") as u64;
    let results = [
        ran(0, "a", vec![message()]),
        ran(loss, "b", vec![message()]),
    ];
    let kill = all.propose(len, &results).expect("one");
    let (_, second) = kill
        .to_string()
        .rsplit_once("[[faults]]\n")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .expect("two");
    assert!(second.contains("at = { after_s = 0.0 }\n") && second.contains("on = \"hit\"\n"));
    assert!(
        second.contains("with_message = { nth = 1, from = \"hit\", to = \"b\""),
        "{second}"
    );
    let loss = all.propose(len + loss, &results).expect("one").to_string();
    assert!(
        loss.contains("at = { ended = true }\n") && loss.contains("from = \"hit\"\n"),
        "{loss}"
    );
    let read = FaultPlan::parse(&loss, Path::new("p"), &file);
    assert_eq!(read.expect("a plan").to_string(), loss);
    // Others have links while that one is off.
    let index = results[1].index;
    let results = [ran(index, "c", vec![message()])];
    let of_others = all.propose(len + index, &results).expect("one").to_string();
    let (_, second) = of_others.rsplit_once("[[faults]]\n").expect("two");
    assert!(second.starts_with("at = { after_s = 0.0 }\n"), "{second}");
}

/// A read whose bytes are in one buffer can return wrong ones: the last kind of failure of calls, and none unless it is
/// asked for.
#[test]
fn a_read_returns_wrong_bytes_only_if_that_is_asked_for() {
    let seen = |file: &str, bytes_min| SeenPoint {
        bytes_min,
        ..in_recovery("read", file, None, "a")
    };
    let with = |corrupt_reads| Collected {
        points: vec![seen("log", Some(64)), seen("vectors", None)],
        corrupt_reads,
        ..collected()
    };
    let file = file("");
    let of_all = |corrupt_reads| -> Vec<_> {
        let mut all = Exhaustive::new(&file, 0, &with(corrupt_reads));
        let count = all.count().expect("an end");
        let plans = (0..count).map(|index| all.propose(index, &[]).expect("one").to_string());
        plans.collect()
    };
    let (without, plans) = (of_all(false), of_all(true));
    assert!(!without.iter().any(|plan| plan.contains("corrupt")));
    // Two times of a point come up.
    let (others, corrupt): (Vec<_>, Vec<_>) =
        plans.iter().partition(|plan| !plan.contains("corrupt"));
    assert_eq!(others, without.iter().collect::<Vec<_>>());
    assert_eq!(corrupt.len(), 2);
    assert_eq!(corrupt[0], &plans[without.len() / 2]);
    let wrong = "\
fault = \"call\"
on = \"a\"
call = \"read\"
path = \"./log\"
once = true
corrupt = \"bit\"
";
    assert!(corrupt[0].ends_with(wrong), "{}", corrupt[0]);
    for plan in corrupt {
        let read = FaultPlan::parse(plan, Path::new("p"), &file);
        assert_eq!(read.expect("a plan").to_string(), *plan);
    }
}

/// A loop that reads a file to its end gets nothing the last time: no bytes can be wrong there.
#[test]
fn a_read_returns_wrong_bytes_only_where_it_or_a_later_one_returns_some() {
    let (file, disks) = (file(""), Disks::default());
    for (empty, times) in [(0, &[1, 3, 2][..]), (1, &[1, 2]), (2, &[1]), (3, &[])] {
        let mut seen = in_recovery("read", "log", None, "a");
        seen.by_node.insert("a".into(), 3);
        seen.bytes_min = Some(64);
        seen.empty_at_end.insert("a".into(), empty);
        let collected = Collected {
            points: vec![seen.clone()],
            corrupt_reads: true,
            failures_max: 2,
            ..collected()
        };
        let all = Exhaustive::new(&file, 0, &collected);
        let corrupt = |single: &&Single| single.failure == PointFailure::CorruptRead;
        let singles = all.singles().iter().filter(corrupt);
        let tried: Vec<_> = singles.map(|single| single.at.nth).collect();
        assert_eq!(tried, times, "{empty}");
        // And so after another failure.
        let is_one = |failure| failure == PointFailure::CorruptRead;
        let of_point = collected.failures(&seen, &disks).any(is_one);
        assert_eq!(of_point, !times.is_empty(), "{empty}");
        let result = ran(0, "a", vec![seen]);
        let tried = Tried::new(&result, (1, PointFailure::Eio), Numbers::ALL);
        let nexts = all.nexts(&tried);
        let is_next = nexts.iter().any(|next| is_one(next.failure));
        assert_eq!(is_next, !times.is_empty(), "{empty}");
    }
}

/// There is an end, however many failures a run may have.
#[test]
fn failures_that_no_run_has_come_to_cost_nothing() {
    let all = with_at_most(u64::MAX, Order::Novel);
    assert_eq!(all.order(&[], u64::MAX).count() as u64, all.len());
    let results = [ran(0, "a", vec![in_recovery("unlink", "x", None, "a")])];
    assert_eq!(all.order(&results, u64::MAX).count() as u64, all.len() + 5);
    let told = all.tells(&results);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[2].starts_with("triples: 0 of 0 tried"), "{told:?}");
}

/// A sender that is killed after its message was cut off is one failure and two faults.
#[test]
fn a_failure_of_two_faults_is_followed_by_others_if_both_happened() {
    let pairs = Collected {
        points: vec![message()],
        failures_max: 2,
        ..collected()
    };
    let all = Exhaustive::new(&file(""), 0, &pairs);
    let len = all.count().expect("known");
    let kill = |one: &Single| one.failure == PointFailure::CutAndKillSender;
    let kill = all.singles.iter().position(kill).expect("there is one") as u64;
    let mut result = ran(kill, "a", vec![message()]);
    let pairs_after = |result: &InjectResult| {
        let results = [result.clone()];
        all.order(&results, u64::MAX)
            .filter(|index| *index >= len)
            .count()
    };
    assert_eq!(pairs_after(&result), 0);
    let cut = result.ran.faults[0].clone();
    result.ran.faults.push(cut);
    assert_eq!(pairs_after(&result), 6);
    result.ran.faults[1].state = State::NeverFired;
    assert_eq!(pairs_after(&result), 0);
}

#[test]
fn all_occurrences_are_tried_if_that_is_asked_for() {
    let collected = Collected {
        all_occurrences: true,
        ..collected()
    };
    let all = Exhaustive::new(&file(""), 0, &collected);
    assert_eq!(all.count(), Some(8 * 7 + 7));
}

/// A run with so many failures that all hit one node, which came to these calls after them.
fn recovered(index: u64, failures: usize, calls: &[&str]) -> InjectResult {
    let points = calls.iter().map(|call| in_recovery(call, "x", None, "a"));
    let mut result = ran(index, "a", points.collect());
    let one = result.ran.faults[0].clone();
    result.ran.faults = vec![one; failures];
    result
}

fn with_at_most(failures_max: u64, order: Order) -> Exhaustive {
    let collected = Collected {
        failures_max,
        order,
        ..collected()
    };
    Exhaustive::new(&file(""), 0, &collected)
}

#[test]
fn a_third_failure_is_at_a_call_after_the_second_and_no_number_is_of_two_runs() {
    let mut all = with_at_most(3, Order::Novel);
    let len = all.len();
    // A mkdir has five failures, an unlink too.
    let results = [
        recovered(0, 1, &["mkdir"]),
        recovered(1, 1, &["mkdir"]),
        recovered(len, 2, &["mkdir", "unlink"]),
        recovered(2 * len, 2, &["mkdir"]),
    ];
    let order: Vec<_> = all.order(&results, u64::MAX).collect();
    let numbers: BTreeSet<_> = order.iter().collect();
    assert_eq!(numbers.len(), order.len(), "no number is of two runs");
    let (pairs, triples) = order[len as usize..].split_at(10);
    assert_eq!(pairs[..2], [len, 2 * len], "as without triples");
    assert_eq!(triples.len(), 10 + 5);
    // Of five pairs that begin with run 0, that with the first number has the first triple, in a new way.
    assert_eq!(triples[..2], [6 * len, 11 * len]);
    assert_eq!(triples[10], 7 * len, "its way was that of a single failure");
    let two = all.propose(len, &results).expect("a pair").to_string();
    for (rank, index) in triples[..10].iter().enumerate() {
        let three = all.propose(*index, &results).expect("a triple").to_string();
        assert!(
            three.starts_with(&two) && three.matches("[[faults]]").count() == 3,
            "{three}"
        );
        let call = if rank % 2 == 0 { "mkdir" } else { "unlink" };
        assert!(rank >= 2 || three[two.len()..].contains(call), "{three}");
        assert_eq!(
            all.root(*index),
            0,
            "it is of the shard of its first failure"
        );
    }
    assert!(
        all.propose(56 * len, &results).is_none(),
        "there are ten of that pair"
    );
    let tells = all.tells(&results);
    assert!(
        tells[1].starts_with("pairs: 2 of 10 tried; after the first failures "),
        "{tells:?}"
    );
    assert!(
        tells[2].starts_with("triples: 0 of 15 tried; after the pairs "),
        "{tells:?}"
    );
    assert!(tells[2].ends_with("(1 of 2): 10"), "{tells:?}");
    let two = with_at_most(2, Order::Novel);
    assert_eq!(two.order(&results, u64::MAX).count() as u64, len + 10);
}

#[test]
fn no_triple_follows_a_pair_whose_first_failure_never_happened() {
    let all = with_at_most(3, Order::Novel);
    let len = all.len();
    let mut results = [recovered(0, 1, &["mkdir"]), recovered(len, 2, &["mkdir"])];
    assert_eq!(all.order(&results, u64::MAX).count() as u64, len + 5 + 5);
    results[1].ran.faults[0].state = State::NeverFired;
    assert_eq!(all.order(&results, u64::MAX).count() as u64, len + 5);
}

#[test]
fn the_pruned_order_has_only_what_comes_first_in_the_other() {
    let results = [
        recovered(0, 1, &["mkdir"]),
        recovered(1, 1, &["mkdir"]),
        recovered(2, 1, &["unlink"]),
    ];
    let order = |order| {
        let all = with_at_most(2, order);
        all.order(&results, u64::MAX).collect::<Vec<_>>()
    };
    let (novel, pruned) = (order(Order::Novel), order(Order::Pruned));
    assert_eq!(pruned.len() + 5, novel.len());
    assert_eq!(novel[..pruned.len()], pruned);
    let tells = with_at_most(2, Order::Pruned).tells(&results);
    assert!(
        tells[1].starts_with("pairs: 0 of 15 tried") && tells[1].ends_with(": 10"),
        "{tells:?}"
    );
}

/// A request to the disk of the leader.
fn request(request: &str, area: Option<&str>) -> SeenPoint {
    SeenPoint {
        by_node: [("a".to_owned(), 3)].into(),
        ..SeenPoint::of(Point::Request(RequestPoint {
            request: request.into(),
            area: area.map(str::to_owned),
            of: "leader".into(),
        }))
    }
}

#[test]
fn a_request_fails_or_the_power_does_before_or_after_it() {
    let file = file("");
    let collected = Collected {
        points: vec![request("write", Some("data")), request("read", None)],
        ..collected()
    };
    assert_ne!(collected.points[0].id, request("write", None).id);
    let mut all = Exhaustive::new(&file, 0, &collected);
    // Five failures of a write and three of a read, at the first, the last and the middle one.
    assert_eq!(all.count(), Some(24));
    let text = |all: &mut Exhaustive, index| all.propose(index, &[]).expect("one").to_string();
    let at = "at = { request = \"write\", area = \"data\", node = \"leader\" }\n";
    let told = [
        format!("{at}fault = \"power-loss\"\non = \"leader\"\n"),
        format!("{at}fault = \"disk\"\non = \"leader\"\nrequests = [\"writes\"]\ntimes = 1\n"),
        "at = { request = \"read\", node = \"leader\" }\nfault = \"disk\"\non = \"leader\"\nrequests = [\"reads\"]\ntimes = 1\n".to_owned(),
        format!("{at}fault = \"disk\"\non = \"leader\"\nrequests = [\"writes\"]\nuntil"),
    ];
    for (index, told) in told.iter().enumerate() {
        let text = text(&mut all, index as u64);
        assert!(text.contains(told), "{text}");
    }
    assert!(
        text(&mut all, 5).contains("node = \"leader\", when = \"after\" }\nfault = \"power-loss\"")
    );
    assert!(text(&mut all, 6).contains("slow_s = 1.0"));
    assert!(text(&mut all, 8).contains("area = \"data\", nth = 3"));
    for index in 0..24 {
        let text = text(&mut all, index);
        let read = FaultPlan::parse(&text, Path::new("p"), &file);
        assert_eq!(read.expect("a plan").to_string(), text);
    }
}

#[test]
fn a_disk_that_has_a_fault_gets_no_second_one() {
    let collected = Collected {
        points: vec![request("flush", None)],
        failures_max: 2,
        ..collected()
    };
    let all = Exhaustive::new(&file(""), 0, &collected);
    let after = |failure, hit: &str| {
        let result = ran(0, hit, vec![request("flush", None)]);
        all.count_after(&Tried::new(&result, (1, failure), Numbers::ALL))
    };
    assert_eq!(after(PointFailure::DiskEio, "a"), 2, "losses of power");
    assert_eq!(after(PointFailure::DiskEio, "b"), 5);
    assert_eq!(after(PointFailure::PowerLoss, "a"), 5);
}
