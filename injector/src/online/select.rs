//! Which nodes a plan means.

use cluster::{ClusterFile, Explore, NodeConfig};
use simulation::Chance;

use super::plan::Selector;
use super::roles::Roles;

/// What is known when nodes are selected.
pub(super) struct Known<'a> {
    pub(super) file: &'a ClusterFile,
    pub(super) roles: Option<&'a Roles>,
    pub(super) seed: u64,
    /// Whom the last fault has hit, if there was one.
    pub(super) hit: Option<&'a [usize]>,
}

impl Known<'_> {
    /// The nodes that any of these select, in the order of the file; those that are not in `cut_off`
    /// are the others. Fails in words if nobody has a role.
    pub(super) fn all(
        &self,
        selectors: &[Selector],
        cut_off: &[usize],
    ) -> Result<Vec<usize>, String> {
        let mut all = Vec::new();
        for selector in selectors {
            all.extend(self.one(selector, cut_off)?);
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    fn one(&self, selector: &Selector, cut_off: &[usize]) -> Result<Vec<usize>, String> {
        let count = self.file.nodes.len();
        Ok(match selector {
            Selector::Node(name) => self.file.place(name).into_iter().collect(),
            Selector::Kind(kind) => self.of_kind(kind),
            Selector::Role(role) => vec![self.one_having(role)?],
            Selector::EveryRole(role) => self.all_having(role)?,
            Selector::All => (0..count).collect(),
            Selector::Any => vec![Chance::new(self.seed, "any").below(count as u64) as usize],
            Selector::Minority => self.minority(),
            Selector::Majority => {
                let minority = self.minority();
                (0..count).filter(|node| !minority.contains(node)).collect()
            }
            Selector::Hit => self.hit.ok_or("no fault has hit anybody yet")?.to_vec(),
            Selector::Others => (0..count).filter(|node| !cut_off.contains(node)).collect(),
        })
    }

    fn one_having(&self, role: &str) -> Result<usize, String> {
        let one = self.roles.and_then(|roles| roles.one_having(role));
        one.ok_or_else(|| nobody_is(role))
    }

    fn all_having(&self, role: &str) -> Result<Vec<usize>, String> {
        let all = self.roles.map(|roles| roles.having(role));
        let some = all.filter(|all| !all.is_empty());
        some.ok_or_else(|| nobody_is(role))
    }

    fn of_kind(&self, kind: &str) -> Vec<usize> {
        let nodes = self.file.nodes.iter().enumerate();
        let is_one = |(_, node): &(_, &NodeConfig)| node.kind.as_deref() == Some(kind);
        nodes.filter(is_one).map(|(place, _)| place).collect()
    }

    /// The largest minority that the seed draws.
    fn minority(&self) -> Vec<usize> {
        let count = self.file.nodes.len();
        let mut chance = Chance::new(self.seed, "minority");
        let mut left: Vec<_> = (0..count).collect();
        let drawn = (majority_size(self.file)..count).map(|_| draw(&mut left, &mut chance));
        drawn.collect()
    }

    /// The smallest majority that the seed draws, with as many of these nodes as it has room for.
    pub(super) fn majority_with(&self, first: &[usize]) -> Vec<usize> {
        let size = majority_size(self.file);
        let mut chance = Chance::new(self.seed, "restored");
        let all = 0..self.file.nodes.len();
        let (first, others): (Vec<_>, Vec<_>) = all.partition(|node| first.contains(node));
        let mut drawn = Vec::new();
        for mut group in [first, others] {
            while drawn.len() < size && !group.is_empty() {
                drawn.push(draw(&mut group, &mut chance));
            }
        }
        drawn.sort_unstable();
        drawn
    }
}

/// How many nodes are a majority: as many as the cluster file says, or more than half.
pub(super) fn majority_size(file: &ClusterFile) -> usize {
    let said = match file.explore {
        Explore::ReplicatedStateMachine { majority } => majority,
        Explore::PrimaryReplicas { .. } => None,
    };
    said.unwrap_or(file.nodes.len() / 2 + 1)
}

fn draw(left: &mut Vec<usize>, chance: &mut Chance) -> usize {
    let place = chance.below(left.len() as u64) as usize;
    left.swap_remove(place)
}

fn nobody_is(role: &str) -> String {
    format!("the probe says of no node that it is {role}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::given::cluster_of;
    use super::super::roles::Role;
    use super::*;

    fn selected(
        selectors: &[Selector],
        cut_off: &[usize],
        seed: u64,
    ) -> Result<Vec<usize>, String> {
        let text = "[[nodes]]\nnames = [\"a\", \"b\", \"c\", \"d\"]\ncommand = \"sh\"\n[[nodes]]\nname = \"e\"\nkind = \"arbiter\"\ncommand = \"sh\"\n";
        let file = cluster_of(text);
        let roles = [(0, "leader", "3"), (1, "follower", "4"), (3, "leader", "4")];
        let of = roles.map(|(node, role, more)| {
            let (role, more) = (role.to_owned(), more.to_owned());
            (node, Role { role, more })
        });
        let roles = Roles {
            asked: Duration::ZERO,
            of: of.into(),
            wrong: None,
        };
        let known = Known {
            file: &file,
            roles: Some(&roles),
            seed,
            hit: Some(&[4]),
        };
        known.all(selectors, cut_off)
    }

    fn role(name: &str) -> Selector {
        Selector::Role(name.into())
    }

    #[test]
    fn of_two_leaders_the_one_of_the_later_term_leads() {
        assert_eq!(selected(&[role("leader")], &[], 0), Ok(vec![3]));
        assert_eq!(
            selected(&[Selector::Kind("arbiter".into())], &[], 0),
            Ok(vec![4])
        );
        assert_eq!(
            selected(&[Selector::EveryRole("leader".into())], &[], 0),
            Ok(vec![0, 3])
        );
        let nobody = selected(&[role("candidate")], &[], 0);
        assert_eq!(
            nobody,
            Err("the probe says of no node that it is candidate".into())
        );
        assert_eq!(selected(&[Selector::Hit], &[], 0), Ok(vec![4]));
        assert_eq!(selected(&[Selector::Others], &[3, 1], 0), Ok(vec![0, 2, 4]));
    }

    #[test]
    fn a_majority_and_a_minority_of_one_seed_are_all_nodes() {
        for seed in 0..20 {
            let minority = selected(&[Selector::Minority], &[], seed).expect("selected");
            let majority = selected(&[Selector::Majority], &[], seed).expect("selected");
            assert_eq!((minority.len(), majority.len()), (2, 3));
            assert!(minority.iter().all(|node| !majority.contains(node)));
        }
        let drawn = |seed| selected(&[Selector::Any], &[], seed).expect("selected")[0];
        let all: std::collections::BTreeSet<_> = (0..50).map(drawn).collect();
        assert_eq!(all.len(), 5);
    }
}
