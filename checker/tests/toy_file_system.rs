//! A toy file system with an ordered log is never accused, whatever was run and wherever in the
//! log recovery stopped; and it is, as soon as it loses what was durable.

mod support;

use std::collections::BTreeSet;

use checker::{Contract, Promise};
use local_fs::Tree;
use proptest::prelude::*;
use proptest::sample::Index;
use support::{Kind, ORDERED, Toy, model_under, operations};
use workloads::{Op, Workload, WriteSync};

/// What an operation is made of; what it means depends on what is there.
type Raw = (u8, Index, Index, Index);

/// Every path that is there, with its node.
fn paths(toy: &Toy) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut pending = vec![(String::new(), 0)];
    while let Some((prefix, directory)) = pending.pop() {
        for (name, child) in &toy.nodes[directory].entries {
            let path = format!("{prefix}{name}");
            if toy.nodes[*child].kind == Kind::Directory {
                pending.push((format!("{path}/"), *child));
            }
            found.push((path, *child));
        }
    }
    found.sort();
    found
}

/// The operation that `raw` stands for, if there is something to do it on.
fn operation(toy: &Toy, raw: &Raw) -> Option<String> {
    let (what, first, second, third) = raw;
    let all = paths(toy);
    let of = |kind: Kind| -> Vec<String> {
        all.iter()
            .filter(|(_, node)| toy.nodes[*node].kind == kind)
            .map(|(path, _)| path.clone())
            .collect()
    };
    let (files, directories) = (of(Kind::File), of(Kind::Directory));
    let pick = |from: &[String], index: &Index| {
        (!from.is_empty()).then(|| from[index.index(from.len())].clone())
    };
    let file = pick(&files, first);
    let mut parents: Vec<_> = directories.iter().map(|path| format!("{path}/")).collect();
    parents.push(String::new());
    let parent = pick(&parents, second)?;
    let place = format!("{parent}{}", ["a", "b", "c"][third.index(3)]);
    let free = toy.find(&place).is_none();
    let number = third.index(4) * 3000;
    match what % 22 {
        0..=2 => free.then(|| format!("creat {place}")),
        3 => {
            let place = format!("{parent}{}", ["A", "B"][third.index(2)]);
            toy.find(&place).is_none().then(|| format!("mkdir {place}"))
        }
        4 | 5 => free
            .then_some(file)
            .flatten()
            .map(|file| format!("link {file} {place}")),
        6 => file.map(|file| format!("unlink {file}")),
        7..=9 => file.map(|file| format!("rename {file} {place}")),
        10 => {
            let other = pick(&files, third)?;
            let same = toy.find(&other) == toy.find(&file.clone()?);
            (!same).then(|| format!("rename {} {other} exchange", file.unwrap_or_default()))
        }
        11 => free
            .then_some(file)
            .flatten()
            .map(|file| format!("rename {file} {place} whiteout")),
        12 => {
            let directory = pick(&directories, first)?;
            let place = format!("{parent}{}", ["A", "B", "C"][third.index(3)]);
            let inside = format!("{place}/").starts_with(&format!("{directory}/"));
            (!inside && toy.find(&place).is_none()).then(|| format!("rename {directory} {place}"))
        }
        13 => file.map(|file| format!("write {file} {number} 5000")),
        14 => file.map(|file| format!("append {file} 3000")),
        15 => file.map(|file| format!("truncate {file} {number}")),
        16 => file.map(|file| format!("chmod {file} {}", ["600", "640"][third.index(2)])),
        17 => file.map(|file| format!("setxattr {file} user.x v{number}")),
        18 => file.map(|file| format!("fdatasync {file}")),
        19 => Some("sync".to_owned()).filter(|_| third.index(4) == 0),
        20 => file.map(|file| format!("write {file} {number} 5000 sync")),
        _ => {
            let mut any: Vec<_> = files.iter().chain(&directories).cloned().collect();
            any.push(".".to_owned());
            pick(&any, first).map(|path| format!("fsync {path}"))
        }
    }
}

/// A run: the workload, and the file system after each of its operations.
struct Run {
    workload: Workload,
    operations: Vec<Op>,
    toys: Vec<Toy>,
}

fn run(setup: &[Raw], raw: &[Raw]) -> Option<Run> {
    let mut toys = vec![Toy::new()];
    let mut text = Vec::new();
    for (place, raw) in setup.iter().chain(raw).enumerate() {
        if place == setup.len() && !text.is_empty() {
            text.insert(0, "setup".to_owned());
            text.push("run".to_owned());
        }
        let now = toys.last().expect("there is a first");
        let Some(line) = operation(now, raw) else {
            continue;
        };
        let op = operations(&support::workload(&line)).remove(0);
        let mut next = now.clone();
        next.apply(toys.len() - 1, &op);
        toys.push(next);
        text.push(line);
    }
    if text.last().is_none_or(|line| line == "run") {
        return None;
    }
    let workload = support::workload(&text.join("; "));
    Some(Run {
        operations: operations(&workload),
        workload,
        toys,
    })
}

impl Run {
    fn end(&self) -> usize {
        self.operations.len()
    }

    /// Up to where the log is durable at the end, and each node's data: the durability of an
    /// ordered log, by its definition.
    fn durable(&self) -> (usize, Vec<usize>) {
        let last = self.toys.last().expect("there is a first");
        let mut log = 0;
        let mut data: Vec<_> = last.nodes.iter().map(|node| node.created).collect();
        for (number, op) in self.operations.iter().enumerate() {
            let (now, toy) = (number + 1, &self.toys[number + 1]);
            if number < self.workload.setup.len() || matches!(op, Op::Sync) {
                log = now;
                (0..toy.nodes.len()).for_each(|node| data[node] = now);
            }
            match op {
                // The toy writes out all of the file for O_SYNC, not only the range that is
                // promised.
                Op::Fsync { target }
                | Op::Write {
                    target,
                    sync: WriteSync::Sync,
                    ..
                } => {
                    let node = toy.target(target).expect("it is there");
                    (log, data[node]) = (log.max(toy.nodes[node].touched), now);
                }
                Op::Fdatasync { target } => {
                    let node = toy.target(target).expect("it is there");
                    data[node] = now;
                    if !toy.nodes[node].data.is_empty() {
                        log = log.max(toy.nodes[node].created);
                    }
                }
                Op::Write { sync, .. } => {
                    assert_eq!(*sync, WriteSync::None, "the toy knows no others");
                }
                _ => {}
            }
        }
        (log, data)
    }

    /// What is found when recovery stops at `prefix` of the log; `choose` gives the version of
    /// each block's data.
    fn crashed(
        &self,
        prefix: usize,
        data: &[usize],
        mut choose: impl FnMut(usize) -> usize,
    ) -> Toy {
        let mut toy = self.toys[prefix].clone();
        for (number, node) in toy.nodes.iter_mut().enumerate() {
            let mut version = || data[number] + choose(self.end() - data[number] + 1);
            let source = &self.toys[version()].nodes[number];
            node.data.clone_from(&source.data);
            node.written.clone_from(&source.written);
            node.allocated.clone_from(&source.allocated);
            // Blocks reach the disk in any order.
            for block in node.data.chunks_mut(4096).enumerate() {
                let other = &self.toys[version()].nodes[number].data;
                let start = block.0 * 4096;
                for (at, byte) in block.1.iter_mut().enumerate() {
                    *byte = other.get(start + at).copied().unwrap_or(0);
                }
            }
        }
        toy
    }

    /// Whether the toy made more data durable than is promised.
    fn has_synced_ranges(&self) -> bool {
        self.operations.iter().any(|op| {
            matches!(
                op,
                Op::Write {
                    sync: WriteSync::Sync,
                    ..
                }
            )
        })
    }

    fn broken(&self, file_system: &str, recovered: &Tree) -> Vec<String> {
        let live = self.toys[self.end()].tree(file_system);
        // The toy orders names, not data.
        let ordered_data = [Promise::DataWithSize, Promise::ReplaceByRename];
        let contract = Contract::of(file_system)
            .expect("it has a contract")
            .without(&ordered_data);
        let model = model_under(&contract, &self.workload);
        checker::oracle::check_live(&model, &live).expect("the toy and the model agree");
        let findings =
            checker::oracle::check(&model, Some(&live), recovered).expect("it can be decided");
        findings
            .iter()
            .map(|finding| format!("{:?} '{}': {}", finding.promise, finding.path, finding.what))
            .collect()
    }

    /// The paths that are the same in every state that recovery could lead to.
    fn durable_paths(&self, prefix: usize) -> BTreeSet<(String, usize)> {
        let states = &self.toys[prefix..];
        let mut common: BTreeSet<_> = paths(&states[0]).into_iter().collect();
        for state in states {
            let there: BTreeSet<_> = paths(state).into_iter().collect();
            common = &common & &there;
        }
        common
    }
}

fn raw(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Raw>> {
    prop::collection::vec(any::<Raw>(), count)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_ordered_file_system_is_never_accused(
        setup in raw(0..5), ops in raw(1..10), stop in any::<Index>(), choices in prop::collection::vec(any::<Index>(), 64),
    ) {
        let Some(run) = run(&setup, &ops) else { return Ok(()) };
        let (log, data) = run.durable();
        let prefix = log + stop.index(run.end() - log + 1);
        let mut choices = choices.iter().cycle();
        let recovered = run.crashed(prefix, &data, |count| choices.next().map_or(0, |choice| choice.index(count)));
        for file_system in ORDERED {
            let broken = run.broken(file_system, &recovered.tree(file_system));
            prop_assert!(broken.is_empty(), "{file_system}: {}, first {prefix}: {broken:?}", run.workload.to_line());
        }
    }

    /// A commit of everything may happen at any time after the last call.
    #[test]
    fn a_state_behind_the_last_persistence_operation_is_legal_everywhere(
        setup in raw(0..5), ops in raw(1..10), stop in any::<Index>(),
    ) {
        let Some(run) = run(&setup, &ops) else { return Ok(()) };
        let last = run.operations.iter().rposition(Op::is_persistence).map_or(0, |number| number + 1);
        let from = last.max(run.workload.setup.len());
        let prefix = from + stop.index(run.end() - from + 1);
        for file_system in support::ALL {
            let broken = run.broken(file_system, &run.toys[prefix].tree(file_system));
            prop_assert!(broken.is_empty(), "{file_system}: {}, first {prefix}: {broken:?}", run.workload.to_line());
        }
    }

    #[test]
    fn an_ordered_file_system_that_loses_a_durable_name_is_accused(
        setup in raw(0..5), ops in raw(1..10), stop in any::<Index>(), victim in any::<Index>(),
    ) {
        let Some(run) = run(&setup, &ops) else { return Ok(()) };
        let (log, data) = run.durable();
        let durable: Vec<_> = run.durable_paths(log).into_iter().collect();
        if durable.is_empty() {
            return Ok(());
        }
        let mut recovered = run.crashed(log + stop.index(run.end() - log + 1), &data, |_| 0);
        let (path, _) = &durable[victim.index(durable.len())];
        recovered.unname(path);
        for file_system in ORDERED {
            let broken = run.broken(file_system, &recovered.tree(file_system));
            prop_assert!(!broken.is_empty(), "{file_system}: {}, without {path}", run.workload.to_line());
        }
    }

    #[test]
    fn a_file_system_that_changes_a_durable_byte_is_accused(
        setup in raw(0..5), ops in raw(1..10), victim in any::<Index>(), at in any::<Index>(),
    ) {
        let Some(run) = run(&setup, &ops) else { return Ok(()) };
        if run.has_synced_ranges() {
            return Ok(());
        }
        let (_, data) = run.durable();
        let end = &run.toys[run.end()];
        let files: Vec<_> = paths(end).into_iter().filter(|(_, node)| !end.nodes[*node].data.is_empty()).collect();
        if files.is_empty() {
            return Ok(());
        }
        let (path, node) = &files[victim.index(files.len())];
        let same = run.toys[data[*node]..].iter().all(|toy| toy.nodes[*node].data == end.nodes[*node].data);
        if !same {
            return Ok(());
        }
        let mut recovered = end.clone();
        let offset = at.index(recovered.nodes[*node].data.len());
        recovered.nodes[*node].data[offset] ^= 0x55;
        recovered.nodes[*node].written.insert(offset as u64 / 4096);
        for file_system in support::ALL {
            let broken = run.broken(file_system, &recovered.tree(file_system));
            prop_assert!(!broken.is_empty(), "{file_system}: {}, {path} at {offset}", run.workload.to_line());
        }
    }
}
