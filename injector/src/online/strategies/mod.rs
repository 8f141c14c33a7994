//! The strategies that there are.

mod exhaustive;
mod partitions;
mod random;
mod search;
mod time;

use cluster::ClusterFile;

use super::strategy::Strategy;
pub(super) use exhaustive::endless_for;
pub use exhaustive::{Exhaustive, without_faults};
use partitions::Partitions;
use random::Random;
pub use search::Search;
use time::Time;

/// Makes a strategy for a cluster, with a seed for what it draws.
type Make = fn(&ClusterFile, u64) -> Box<dyn Strategy>;

/// All of them, by name.
pub const STRATEGIES: [(&str, Make); 3] = [
    ("partitions", |file, seed| {
        Box::new(Partitions::new(file, seed))
    }),
    ("random", |file, seed| Box::new(Random::new(file, seed))),
    ("time", |file, seed| Box::new(Time::new(file, seed))),
];

/// The name of [`Exhaustive`], which needs failure points beside the cluster.
pub const EXHAUSTIVE: &str = "exhaustive";

/// The strategy with a name, for a cluster.
pub fn strategy(name: &str, file: &ClusterFile, seed: u64) -> Option<Box<dyn Strategy>> {
    let found = STRATEGIES.iter().find(|(known, _)| *known == name);
    found.map(|(_, make)| make(file, seed))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::super::given::cluster_of;
    use super::super::plan::FaultPlan;
    use super::*;

    const CLUSTER: &str = "
disk = \"ext4\"
[[nodes]]
names = [\"a\", \"b\", \"c\"]
command = \"sh\"
[[clients]]
name = \"x\"
command = \"sh\"
endless = true
[probe]
command = \"sh\"
roles = [\"leader\", \"follower\"]
";

    fn file() -> ClusterFile {
        cluster_of(CLUSTER)
    }

    #[test]
    fn every_plan_is_one_that_can_be_read_and_none_is_proposed_twice() {
        for (name, _) in STRATEGIES {
            let mut strategy = strategy(name, &file(), 11).expect("known");
            let count = strategy.count().unwrap_or(300).min(300);
            let mut seen = BTreeSet::new();
            for index in 0..count {
                let plan = strategy.propose(index, &[]).expect("there is one");
                let text = plan.to_string();
                let read = FaultPlan::parse(&text, Path::new("p"), &file());
                assert_eq!(read.as_ref(), Ok(&plan), "{name} {index}: {text}");
                let faults = text.split_once("\n\n").expect("faults").1.to_owned();
                assert!(
                    seen.insert(faults) || name == "random",
                    "{name} {index}: {text}"
                );
            }
        }
    }

    #[test]
    fn the_same_index_is_the_same_plan_and_another_seed_another_one() {
        let plans = |seed| {
            let mut strategy = strategy("random", &file(), seed).expect("known");
            let plans = (0..20).rev().map(|index| strategy.propose(index, &[]));
            plans.collect::<Vec<_>>()
        };
        assert_eq!(plans(3), plans(3));
        assert_ne!(plans(3), plans(4));
    }

    #[test]
    fn the_leader_is_isolated_first() {
        let mut strategy = strategy("partitions", &file(), 0).expect("known");
        let count = strategy.count().expect("it has an end");
        assert!(strategy.propose(count, &[]).is_none());
        let first = strategy.propose(0, &[]).expect("there is one").to_string();
        let expected = "\
seed = 0

[[faults]]
at = { acknowledged = 3 }
fault = \"partition\"
on = \"leader\"
until = { after_s = 5.0 }
";
        assert_eq!(first, expected);
    }
}
