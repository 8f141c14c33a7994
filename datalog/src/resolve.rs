//! Which relation and which column each name means.

use std::collections::{BTreeMap, BTreeSet};

use crate::problem::{Checked, Problem, Source, Wrong};
use crate::program::{Atom, Column, Head, InputRelation, Origin, Relation, Rule};
use crate::syntax::{Expression, HeadTerm, Literal, Term, WrittenAtom, WrittenRule};

/// More columns than this have no meaning to people, and a database has an end too.
const COLUMNS_MAX: usize = 100;

/// So many atoms a rule has at most: the database joins no more.
const ATOMS_MAX: usize = 60;

/// The relations, and the rules with their names resolved.
pub(crate) fn resolve(
    (source, own): (&Source, Vec<WrittenRule>),
    (given, given_rules): (&Source, Vec<WrittenRule>),
    inputs: &[InputRelation],
) -> Result<(Vec<Relation>, Vec<Rule>), Problem> {
    let mut names = Names::new(inputs);
    for rule in &own {
        let declared = names.declare(rule, false);
        declared.map_err(|wrong| wrong.in_source(&source.name, Some(&rule.relation)))?;
    }
    names.given = given_rules
        .iter()
        .map(|rule| rule.relation.clone())
        .collect();
    let used = used(&own, given_rules, &names);
    refuse_misfits(source, &own, &used)?;
    for rule in &used {
        let declared = names.declare(rule, true);
        declared.expect("what is given is right");
    }
    let mut rules = Vec::new();
    let all = own.into_iter().map(|rule| (source, rule));
    for (source, rule) in all.chain(used.into_iter().map(|rule| (given, rule))) {
        let name = rule.relation.clone();
        let resolved = names.resolve(source, rule);
        rules.push(resolved.map_err(|wrong| wrong.in_source(&source.name, Some(&name)))?);
    }
    Ok((names.relations, rules))
}

fn mentioned(rule: &WrittenRule) -> impl Iterator<Item = &WrittenAtom> {
    rule.body.iter().filter_map(|literal| match literal {
        Literal::Holds(atom) | Literal::Absent(atom) => Some(atom),
        Literal::Condition(..) => None,
    })
}

/// Those of the given rules that are needed, and whose relations have none of their own.
fn used(own: &[WrittenRule], given: Vec<WrittenRule>, names: &Names) -> Vec<WrittenRule> {
    let mut wanted: BTreeSet<String> = own
        .iter()
        .flat_map(mentioned)
        .map(|atom| atom.relation.clone())
        .collect();
    loop {
        let before = wanted.len();
        for rule in &given {
            if wanted.contains(&rule.relation) && !names.ids.contains_key(&rule.relation) {
                wanted.extend(mentioned(rule).map(|atom| atom.relation.clone()));
            }
        }
        if wanted.len() == before {
            break;
        }
    }
    let is_used = |rule: &WrittenRule| {
        wanted.contains(&rule.relation) && !names.ids.contains_key(&rule.relation)
    };
    given.into_iter().filter(is_used).collect()
}

/// Refuses what the rules that are given and used cannot stand beside.
fn refuse_misfits(
    source: &Source,
    own: &[WrittenRule],
    used: &[WrittenRule],
) -> Result<(), Problem> {
    for rule in own {
        let fits = refuse_misfit(rule, used);
        fits.map_err(|wrong| wrong.in_source(&source.name, Some(&rule.relation)))?;
    }
    Ok(())
}

/// A relation of the user may stand for one that is given, if those that are used can go by it.
fn refuse_misfit(own: &WrittenRule, used: &[WrittenRule]) -> Checked<()> {
    let name = &own.relation;
    for rule in used {
        let short = &rule.relation;
        if short.eq_ignore_ascii_case(name) {
            let what = format!(
                "{name} and the short form {short} differ only in capital letters, which the database \
                 does not tell apart"
            );
            return Err(Wrong::new(own.at, what));
        }
        let is_other =
            |atom: &WrittenAtom| atom.relation == *name && atom.arguments.len() != own.head.len();
        if mentioned(rule).any(is_other) {
            return Err(Wrong::new(own.at, misfit(short, name)));
        }
    }
    Ok(())
}

/// What is said of a relation of the user that a short form cannot go by.
fn misfit(short: &str, name: &str) -> String {
    format!("the short form {short} asks for a {name} with other columns: give yours another name")
}

/// What is wrong with rules that are given is wrong with the user's relation that they go by.
pub(crate) fn of_user(
    problem: Problem,
    given: &Source,
    relations: &[Relation],
    rules: &[Rule],
) -> Problem {
    let is_it = |rule: &&Rule| {
        let name = &relations[rule.relation].name;
        rule.source == given.name && problem.rule.as_ref() == Some(name)
    };
    let wrong = rules.iter().filter(is_it);
    let mut atoms = wrong.flat_map(|rule| rule.atoms.iter().chain(&rule.absent));
    let own = atoms.find(|atom| relations[atom.relation].is_own());
    let of_own = |atom: &Atom| rules.iter().find(|rule| rule.relation == atom.relation);
    match (own.and_then(of_own), &problem.rule) {
        (Some(own), Some(short)) => {
            let name = &relations[own.relation].name;
            Wrong::new(own.at, misfit(short, name)).in_source(&own.source, Some(name))
        }
        _ => problem,
    }
}

struct Names {
    relations: Vec<Relation>,
    ids: BTreeMap<String, usize>,
    /// The relations of all rules that are given, whether they are used or not.
    given: Vec<String>,
}

impl Names {
    fn new(inputs: &[InputRelation]) -> Self {
        let mut names = Self {
            relations: Vec::new(),
            ids: BTreeMap::new(),
            given: Vec::new(),
        };
        for input in inputs {
            let columns = input.columns.iter().map(|(name, kind)| Column {
                name: (*name).to_owned(),
                kind: Some(*kind),
            });
            let place = |time| input.columns.iter().position(|(name, _)| *name == time);
            // These come first, in this order.
            let id = |beside| inputs.iter().position(|other| other.name == beside);
            names.add(Relation {
                name: input.name.to_owned(),
                columns: columns.collect(),
                origin: Origin::Input {
                    time: input.time.and_then(place),
                    is_watched: input.is_watched,
                    beside: input.beside.and_then(id),
                },
            });
        }
        names
    }

    fn add(&mut self, relation: Relation) {
        self.ids.insert(relation.name.clone(), self.relations.len());
        self.relations.push(relation);
    }

    /// Notes the relation of the head of a rule.
    fn declare(&mut self, rule: &WrittenRule, is_given: bool) -> Checked<()> {
        let WrittenRule { relation, at, .. } = rule;
        if let Some(id) = self.ids.get(relation) {
            return self.declare_again(*id, rule);
        }
        let is_same = |known: &&Relation| known.name.eq_ignore_ascii_case(relation);
        if let Some(known) = self.relations.iter().find(is_same) {
            let what = format!(
                "{relation} and {} differ only in capital letters, which the database does not \
                 tell apart",
                known.name
            );
            return Err(Wrong::new(*at, what));
        }
        if relation.starts_with("sqlite_") {
            return Err(Wrong::new(
                *at,
                "names that begin with sqlite_ are the database's",
            ));
        }
        if rule.head.len() > COLUMNS_MAX {
            let what = format!("a relation has at most {COLUMNS_MAX} columns");
            return Err(Wrong::new(*at, what));
        }
        self.add(Relation {
            name: relation.clone(),
            columns: columns(&rule.head),
            origin: Origin::Rules {
                is_violation: rule.is_violation,
                is_given,
            },
        });
        Ok(())
    }

    fn declare_again(&mut self, id: usize, rule: &WrittenRule) -> Checked<()> {
        let known = &mut self.relations[id];
        let Origin::Rules { is_violation, .. } = &mut known.origin else {
            let what = format!(
                "{} has the facts of the run, and no rules: give yours another name",
                known.name
            );
            return Err(Wrong::new(rule.at, what));
        };
        *is_violation |= rule.is_violation;
        if rule.head.len() == known.columns.len() {
            return Ok(());
        }
        let what = format!(
            "{} has {} in an earlier rule, and {} here",
            known.name,
            places(known.columns.len()),
            places(rule.head.len())
        );
        Err(Wrong::new(rule.at, what))
    }

    fn resolve(&self, source: &Source, rule: WrittenRule) -> Checked<Rule> {
        let mut resolved = Rule {
            source: source.name.clone(),
            at: rule.at,
            relation: self.ids[&rule.relation],
            head: rule.head.into_iter().map(head).collect(),
            atoms: Vec::new(),
            absent: Vec::new(),
            conditions: Vec::new(),
            text: rule.text,
        };
        for literal in rule.body {
            match literal {
                Literal::Holds(atom) => resolved.atoms.push(self.atom(&atom)?),
                Literal::Absent(atom) => resolved.absent.push(self.atom(&atom)?),
                Literal::Condition(condition, at) => resolved.conditions.push((condition, at)),
            }
        }
        if resolved.atoms.len() + resolved.absent.len() > ATOMS_MAX {
            let what = format!("a rule has at most {ATOMS_MAX} atoms: make it several");
            return Err(Wrong::new(resolved.at, what));
        }
        Ok(resolved)
    }

    fn atom(&self, atom: &WrittenAtom) -> Checked<Atom> {
        let Some(id) = self.ids.get(&atom.relation) else {
            return Err(Wrong::new(atom.at, self.unknown(&atom.relation)));
        };
        let relation = &self.relations[*id];
        let is_named = atom
            .arguments
            .first()
            .is_some_and(|one| one.column.is_some());
        let terms = if is_named {
            by_name(relation, atom)?
        } else {
            by_place(relation, atom)?
        };
        Ok(Atom {
            relation: *id,
            terms,
            at: atom.at,
        })
    }

    fn unknown(&self, name: &str) -> String {
        let names = self.ids.keys().chain(&self.given).map(String::as_str);
        let near = nearest(name, names);
        let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        format!("nothing is known of {name}: it has no rule, and is no fact{near}")
    }
}

fn by_place(relation: &Relation, atom: &WrittenAtom) -> Checked<Vec<Term>> {
    if let Some(named) = atom.arguments.iter().find(|one| one.column.is_some()) {
        return Err(mixed(named.at));
    }
    if atom.arguments.len() != relation.columns.len() {
        let what = format!(
            "{} has {}, and not {}; it is {}. Columns may be left out where they are named, as in \
             {}",
            relation.name,
            places(relation.columns.len()),
            atom.arguments.len(),
            shape(relation),
            example(relation)
        );
        return Err(Wrong::new(atom.at, what));
    }
    Ok(atom.arguments.iter().map(|one| one.term.clone()).collect())
}

fn by_name(relation: &Relation, atom: &WrittenAtom) -> Checked<Vec<Term>> {
    let mut terms = vec![None; relation.columns.len()];
    for argument in &atom.arguments {
        let Some(name) = &argument.column else {
            return Err(mixed(argument.at));
        };
        let place = relation
            .columns
            .iter()
            .position(|column| column.name == *name);
        let Some(place) = place else {
            let what = format!(
                "{} has no column {name}; it is {}",
                relation.name,
                shape(relation)
            );
            return Err(Wrong::new(argument.at, what));
        };
        if terms[place].replace(argument.term.clone()).is_some() {
            let what = format!("{name} is said twice");
            return Err(Wrong::new(argument.at, what));
        }
    }
    let terms = terms.into_iter().map(|term| term.unwrap_or(Term::Any));
    Ok(terms.collect())
}

fn mixed(at: crate::Position) -> Wrong {
    Wrong::new(at, "an atom names all of its columns (`key: K`), or none")
}

fn places(count: usize) -> String {
    match count {
        1 => "1 column".into(),
        count => format!("{count} columns"),
    }
}

/// The relation with its columns.
fn shape(relation: &Relation) -> String {
    let names = relation.columns.iter().map(|column| column.name.as_str());
    format!(
        "{}({})",
        relation.name,
        names.collect::<Vec<_>>().join(", ")
    )
}

fn example(relation: &Relation) -> String {
    let first = relation
        .columns
        .first()
        .map_or("key", |column| &column.name);
    format!("{}({first}: X)", relation.name)
}

fn head(term: HeadTerm) -> Head {
    match term {
        HeadTerm::Is(expression) => Head::Is(expression),
        HeadTerm::Aggregate(aggregate, of, at) => Head::Aggregate(aggregate, of, at),
    }
}

/// Names for the columns of a head: of its variables, where they have one of their own.
fn columns(head: &[HeadTerm]) -> Vec<Column> {
    let mut names: Vec<String> = Vec::new();
    for (place, term) in head.iter().enumerate() {
        let name = match term {
            HeadTerm::Is(Expression::Variable(name, _)) => {
                name.trim_start_matches('_').to_ascii_lowercase()
            }
            HeadTerm::Aggregate(aggregate, ..) => aggregate.word().to_owned(),
            HeadTerm::Is(_) => String::new(),
        };
        let is_taken = name.is_empty() || !name.as_bytes()[0].is_ascii_lowercase();
        let name = if is_taken || names.contains(&name) {
            format!("c{}", place + 1)
        } else {
            name
        };
        names.push(name);
    }
    // A variable may be called C2.
    for place in 0..names.len() {
        while names[..place].contains(&names[place]) {
            names[place].push('_');
        }
    }
    let column = |name| Column { name, kind: None };
    names.into_iter().map(column).collect()
}

/// The name that is most like one, if one is like it at all.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.map(|one| (distance(name, one), one)).min()?;
    (near.0 <= name.len().div_ceil(3)).then_some(near.1)
}

/// How many letters are to be changed, added or removed.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (place, letter) in one.chars().enumerate() {
        let mut before = row[0];
        row[0] = place + 1;
        for (column, another) in other.iter().enumerate() {
            let change = before + usize::from(letter != *another);
            before = row[column + 1];
            row[column + 1] = change.min(before + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}
