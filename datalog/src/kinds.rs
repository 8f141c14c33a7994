//! Which columns and variables are numbers, and which are texts.

use std::collections::BTreeMap;

use crate::problem::{Checked, Position, Problem, Wrong};
use crate::program::{Atom, Head, Relation, Rule};
use crate::syntax::{Aggregate, Condition, Expression, Kind, Term};

/// Finds the kind of each column of relations that have rules.
pub(crate) fn infer(relations: &mut [Relation], rules: &[Rule]) -> Result<(), Problem> {
    loop {
        let mut is_new = false;
        for rule in rules {
            let told = relations[rule.relation].name.clone();
            let seen = Kinds::of(relations, rule)
                .and_then(|kinds| kinds.give_to_head(relations, rule, &mut is_new));
            seen.map_err(|wrong| wrong.in_source(&rule.source, Some(&told)))?;
        }
        if !is_new {
            return Ok(());
        }
    }
}

/// What is known of the variables of a rule.
#[derive(Default)]
struct Kinds {
    of: BTreeMap<String, Kind>,
    is_new: bool,
}

impl Kinds {
    fn of(relations: &[Relation], rule: &Rule) -> Checked<Self> {
        let mut kinds = Self::default();
        loop {
            kinds.is_new = false;
            for atom in rule.atoms.iter().chain(&rule.absent) {
                kinds.see_atom(&relations[atom.relation], atom)?;
            }
            for (condition, _) in &rule.conditions {
                kinds.see_condition(condition)?;
            }
            for head in &rule.head {
                kinds.see_head(head)?;
            }
            if !kinds.is_new {
                return Ok(kinds);
            }
        }
    }

    fn see(&mut self, name: &str, kind: Kind, at: Position) -> Checked<()> {
        match self.of.get(name) {
            Some(known) if *known != kind => {
                let what = format!(
                    "{name} is {} elsewhere in this rule, and {} here",
                    known.word(),
                    kind.word()
                );
                Err(Wrong::new(at, what))
            }
            Some(_) => Ok(()),
            None => {
                self.of.insert(name.to_owned(), kind);
                self.is_new = true;
                Ok(())
            }
        }
    }

    fn see_atom(&mut self, relation: &Relation, atom: &Atom) -> Checked<()> {
        for (column, term) in relation.columns.iter().zip(&atom.terms) {
            let Some(kind) = column.kind else { continue };
            match term {
                Term::Variable(name) => self.see(name, kind, atom.at)?,
                Term::Constant(value) if value.kind() != kind => {
                    let what = format!(
                        "column {} of {} is {}, and {value} is not",
                        column.name,
                        relation.name,
                        kind.word()
                    );
                    return Err(Wrong::new(atom.at, what));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn see_condition(&mut self, condition: &Condition) -> Checked<()> {
        match condition {
            Condition::Match(of, ..) => self.must_be(of, Kind::Text),
            Condition::Compare(left, comparison, right) => {
                match (self.kind(left)?, self.kind(right)?) {
                    (Some(one), Some(other)) if one != other => {
                        let what = format!(
                            "`{}` compares {} with {}",
                            comparison.sign(),
                            one.word(),
                            other.word()
                        );
                        Err(Wrong::new(left.at(), what))
                    }
                    (Some(kind), None) => self.must_be(right, kind),
                    (None, Some(kind)) => self.must_be(left, kind),
                    _ => Ok(()),
                }
            }
        }
    }

    fn see_head(&mut self, head: &Head) -> Checked<()> {
        match head {
            Head::Is(expression) => self.kind(expression).map(|_| ()),
            Head::Aggregate(Aggregate::Sum, name, at) => self.see(name, Kind::Integer, *at),
            Head::Aggregate(..) => Ok(()),
        }
    }

    fn must_be(&mut self, expression: &Expression, kind: Kind) -> Checked<()> {
        if let Expression::Variable(name, at) = expression {
            return self.see(name, kind, *at);
        }
        match self.kind(expression)? {
            Some(is) if is != kind => {
                let what = format!("this is {}, and has to be {}", is.word(), kind.word());
                Err(Wrong::new(expression.at(), what))
            }
            _ => Ok(()),
        }
    }

    fn kind(&mut self, expression: &Expression) -> Checked<Option<Kind>> {
        Ok(match expression {
            Expression::Variable(name, _) => self.of.get(name).copied(),
            Expression::Constant(value, _) => Some(value.kind()),
            Expression::Arithmetic(left, operation, right) => {
                for side in [left, right] {
                    match self.kind(side)? {
                        Some(Kind::Integer) => {}
                        Some(Kind::Text) => {
                            let what = format!("`{}` is for numbers", operation.sign());
                            return Err(Wrong::new(side.at(), what));
                        }
                        // A variable: all else has been asked once, and must not be again, since
                        // each level would double that.
                        None => self.must_be(side, Kind::Integer)?,
                    }
                }
                Some(Kind::Integer)
            }
            Expression::Capture(of, _) => {
                self.must_be(of, Kind::Text)?;
                Some(Kind::Text)
            }
            Expression::Number(of) => {
                self.must_be(of, Kind::Text)?;
                Some(Kind::Integer)
            }
        })
    }

    fn give_to_head(
        mut self,
        relations: &mut [Relation],
        rule: &Rule,
        is_new: &mut bool,
    ) -> Checked<()> {
        for (place, head) in rule.head.iter().enumerate() {
            let (kind, at) = match head {
                Head::Is(expression) => (self.kind(expression)?, expression.at()),
                Head::Aggregate(Aggregate::Count | Aggregate::Sum, _, at) => {
                    (Some(Kind::Integer), *at)
                }
                Head::Aggregate(_, name, at) => (self.of.get(name).copied(), *at),
            };
            let Some(kind) = kind else { continue };
            let relation = &mut relations[rule.relation];
            let column = &mut relation.columns[place];
            match column.kind {
                Some(known) if known != kind => {
                    let what = format!(
                        "column {} of {} is {} in another rule, and {} here",
                        column.name,
                        relation.name,
                        known.word(),
                        kind.word()
                    );
                    return Err(Wrong::new(at, what));
                }
                Some(_) => {}
                None => {
                    column.kind = Some(kind);
                    *is_new = true;
                }
            }
        }
        Ok(())
    }
}
