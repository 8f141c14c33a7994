//! Which facts may be there only because others are not known.

use std::collections::BTreeSet;

use crate::program::{Atom, Program, Relation, Rule};

impl Program {
    /// The relations of rules whose facts may be wrong if facts of some input relations are missing: an
    /// absence or an aggregate has to do with them. A rule that asks for the relation `excused`, which
    /// says what is missing, is taken to allow for that.
    pub fn misled_by_missing(&self, inputs: &[&str], excused: &str) -> BTreeSet<&str> {
        let missing = self.resting_on(|relation| inputs.contains(&&*relation.name));
        let excused = self.resting_on(|relation| relation.name == excused);
        let misleads = |rule: &Rule, misled: &BTreeSet<usize>| {
            let of = |atoms: &[Atom], known: &BTreeSet<usize>| {
                atoms.iter().any(|atom| known.contains(&atom.relation))
            };
            let is_excused = of(&rule.atoms, &excused) || of(&rule.absent, &excused);
            let is_counted = rule.is_aggregate() && of(&rule.atoms, &missing);
            !is_excused && (is_counted || of(&rule.absent, &missing) || of(&rule.atoms, misled))
        };
        let misled = self.closed(BTreeSet::new(), misleads);
        misled
            .into_iter()
            .map(|id| &*self.relations[id].name)
            .collect()
    }

    /// The relations that rest on nothing from outside.
    pub(crate) fn resting_on_nothing(&self) -> BTreeSet<usize> {
        let others = self.resting_on(Relation::is_input);
        (0..self.relations.len())
            .filter(|id| !others.contains(id))
            .collect()
    }

    /// Those among the relations, and all whose rules ask for one of these.
    fn resting_on(&self, is_among: impl Fn(&Relation) -> bool) -> BTreeSet<usize> {
        let relations = self.relations.iter().enumerate();
        let among = relations.filter(|(_, relation)| is_among(relation));
        self.closed(among.map(|(id, _)| id).collect(), |rule, known| {
            let mut atoms = rule.atoms.iter().chain(&rule.absent);
            atoms.any(|atom| known.contains(&atom.relation))
        })
    }

    /// Relations, with those of rules that belong to them, until there are no more.
    pub(crate) fn closed(
        &self,
        mut known: BTreeSet<usize>,
        belongs: impl Fn(&Rule, &BTreeSet<usize>) -> bool,
    ) -> BTreeSet<usize> {
        loop {
            let rules = self.rules.iter().filter(|rule| belongs(rule, &known));
            let new: Vec<_> = rules.map(|rule| rule.relation).collect();
            let before = known.len();
            known.extend(new);
            if known.len() == before {
                return known;
            }
        }
    }
}
