//! Which operations of several nodes do the same, so that the nodes lose them together.
//!
//! A node is known to do what another one does by the name of the file, in which numbers stand for
//! any. Some names say nothing: those that a program draws at random, and those with the node's own
//! name in them. What is done to such files is alike by its place instead: the same kind of call
//! from the same place of the program, for the same time.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// What is known of an operation of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    /// What was done, and the last names of the files.
    pub(super) by_name: Arc<str>,
    /// What was done, and the place of the program that did it: a hash of its stack.
    pub(super) by_site: (&'static str, u64),
}

/// The numbers of what a node does, by which it is compared with others: one for each operation.
pub(super) type Numbers = Vec<u32>;

/// Numbers for the operations of these nodes: those of several nodes that do the same have the same
/// number.
pub(super) fn number(nodes: &[Vec<Words>]) -> Vec<Numbers> {
    let known = known_everywhere(nodes);
    let mut numbers: HashMap<Key<'_>, u32> = HashMap::new();
    let keys: Vec<_> = nodes.iter().map(|node| keys(node, &known)).collect();
    let mut of_key = |key| {
        let next = numbers.len() as u32;
        *numbers.entry(key).or_insert(next)
    };
    keys.into_iter()
        .map(|keys| keys.into_iter().map(&mut of_key).collect())
        .collect()
}

/// What makes operations alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key<'a> {
    Name(&'a str),
    /// The operation of this place, and which of them.
    Site((&'static str, u64), usize),
}

fn keys<'a>(operations: &'a [Words], known: &HashSet<&str>) -> Vec<Key<'a>> {
    let mut times: BTreeMap<(&'static str, u64), usize> = BTreeMap::new();
    let mut key = |words: &'a Words| {
        if known.contains(&*words.by_name) {
            return Key::Name(&words.by_name);
        }
        let time = times.entry(words.by_site).or_default();
        *time += 1;
        Key::Site(words.by_site, *time)
    };
    operations.iter().map(&mut key).collect()
}

/// The names of what every node that does anything does.
fn known_everywhere(nodes: &[Vec<Words>]) -> HashSet<&str> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let busy = nodes.iter().filter(|operations| !operations.is_empty());
    for operations in busy.clone() {
        let names: BTreeSet<&str> = operations.iter().map(|words| &*words.by_name).collect();
        for name in names {
            *counts.entry(name).or_default() += 1;
        }
    }
    let all = busy.count();
    let everywhere = counts.into_iter().filter(|(_, count)| *count == all);
    everywhere.map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(by_name: &str, stack: u64) -> Words {
        Words {
            by_name: by_name.into(),
            by_site: ("create", stack),
        }
    }

    #[test]
    fn names_say_what_is_alike_and_where_they_do_not_the_place_does() {
        let nodes = [
            vec![
                words("create log", 1),
                words("create tmp.AbX", 2),
                words("create tmp.zzT", 2),
            ],
            vec![
                words("create tmp.Kqp", 2),
                words("create tmp.mnO", 2),
                words("create log", 1),
            ],
            vec![],
        ];
        let numbers = number(&nodes);
        assert_eq!(numbers[0][0], numbers[1][2], "a name that both have");
        assert_eq!(
            numbers[0][1..],
            numbers[1][..2],
            "the first and the second of a place"
        );
        assert_ne!(numbers[0][1], numbers[0][2]);
        assert!(numbers[2].is_empty());
    }

    #[test]
    fn what_only_one_node_does_has_a_number_that_no_other_has() {
        let nodes = [
            vec![words("create log", 1), words("create lead", 7)],
            vec![words("create log", 1)],
        ];
        let numbers = number(&nodes);
        assert_eq!(numbers[0][0], numbers[1][0]);
        assert!(!numbers[1].contains(&numbers[0][1]));
    }
}
