//! What changes when facts are added: which derived facts rest on nothing any more, which groups of
//! aggregates are others, and what is derived in their place.
//!
//! Facts that are gone, groups that may have changed and what these come to are in temporary tables.

use super::{
    AT, Beside, Compiler, Head, ID, ROUND, RULE, Rows, Statement, UNIT, asked, derived,
    named_columns, on_conflict, premise, quoted, type_name,
};
use crate::program::{Atom, Program, Rule};
use crate::syntax::Expression;

/// In which step a fact was found to be gone.
const STEP: &str = "_step";

/// Whether a group has been calculated again.
const DONE: &str = "_done";

/// Of a relation, the facts that are gone.
pub(crate) fn gone(program: &Program, relation: usize) -> String {
    temporary("gone", &program.table(relation))
}

/// Of the rule of an aggregate, the groups that may have changed.
pub(crate) fn groups(program: &Program, rule_id: usize) -> String {
    temporary("groups", &of_rule(program, rule_id))
}

/// Of the rule of an aggregate, what its groups come to now.
pub(crate) fn again(program: &Program, rule_id: usize) -> String {
    temporary("again", &of_rule(program, rule_id))
}

fn of_rule(program: &Program, rule_id: usize) -> String {
    let relation = program.rules[rule_id].relation;
    format!("{rule_id}_{}", program.table(relation))
}

fn temporary(what: &str, of: &str) -> String {
    format!("temp.{}", quoted(&format!("_{what}_{of}")))
}

/// Makes the table for facts that are gone.
pub(crate) fn make_gone(program: &Program, relation: usize) -> String {
    let mut columns = vec![format!("{ID} INTEGER PRIMARY KEY")];
    columns.extend(typed(program, relation));
    columns.extend([AT, STEP].map(|name| format!("{name} INTEGER NOT NULL")));
    let table = gone(program, relation);
    format!(
        "CREATE TABLE IF NOT EXISTS {table} ({}) STRICT",
        columns.join(", ")
    )
}

/// Makes the tables of the groups of an aggregate.
pub(crate) fn make_groups(program: &Program, rule_id: usize) -> String {
    let relation = program.rules[rule_id].relation;
    let (typed, names) = (typed(program, relation), named_columns(program, relation));
    let keys = key_places(program, rule_id);
    let (mut by, key_names) = if keys.is_empty() {
        (vec![format!("{UNIT} INTEGER NOT NULL")], UNIT.to_owned())
    } else {
        let by = keys.iter().map(|place| typed[*place].clone());
        (by.collect(), keys_of(program, rule_id).join(", "))
    };
    by.push(format!("{DONE} INTEGER NOT NULL DEFAULT 0"));
    format!(
        "CREATE TABLE IF NOT EXISTS {} ({}, UNIQUE ({key_names})) STRICT; \
         CREATE TABLE IF NOT EXISTS {} ({}, {AT} INTEGER NOT NULL, {ROUND} INTEGER NOT NULL, \
         {RULE} INTEGER NOT NULL, UNIQUE ({})) STRICT",
        groups(program, rule_id),
        by.join(", "),
        again(program, rule_id),
        typed.join(", "),
        names.join(", ")
    )
}

/// The columns of a relation, with their types.
fn typed(program: &Program, relation: usize) -> Vec<String> {
    let columns = &program.relations[relation].columns;
    if columns.is_empty() {
        return vec![format!("{UNIT} INTEGER NOT NULL")];
    }
    let typed = columns.iter().map(|column| {
        let kind = type_name(column.kind);
        format!("{} {kind} NOT NULL", quoted(&column.name))
    });
    typed.collect()
}

/// The places of the head of an aggregate that say which group it is.
pub(crate) fn key_places(program: &Program, rule_id: usize) -> Vec<usize> {
    let head = program.rules[rule_id].head.iter().enumerate();
    let keys = head.filter(|(_, head)| matches!(head, Head::Is(_)));
    keys.map(|(place, _)| place).collect()
}

/// The columns at these places.
fn keys_of(program: &Program, rule_id: usize) -> Vec<String> {
    let names = named_columns(program, program.rules[rule_id].relation);
    let keys = key_places(program, rule_id).into_iter();
    keys.map(|place| names[place].clone()).collect()
}

/// What the head of a rule has in the columns of its relation, but for aggregates.
fn head_columns(program: &Program, rule_id: usize) -> Vec<(String, Expression)> {
    let rule = &program.rules[rule_id];
    let names = named_columns(program, rule.relation);
    let columns = names.into_iter().zip(&rule.head);
    let columns = columns.filter_map(|(name, head)| match head {
        Head::Is(expression) => Some((name, expression.clone())),
        Head::Aggregate(..) => None,
    });
    columns.collect()
}

impl Beside {
    /// The rows that are gone from the relation of an atom and fitted it.
    pub(crate) fn gone(program: &Program, atom: &Atom) -> Self {
        let table = format!("{} AS b", gone(program, atom.relation));
        Self::new(table, Vec::new(), asked(program, atom))
    }

    /// The facts that are gone and that this rule may derive again.
    pub(crate) fn gone_heads(program: &Program, rule_id: usize) -> Self {
        let table = format!("{} AS b", gone(program, program.rules[rule_id].relation));
        Self::new(table, Vec::new(), head_columns(program, rule_id))
    }

    /// The groups of an aggregate that are to be calculated again.
    fn groups(program: &Program, rule_id: usize) -> Self {
        let table = format!("{} AS b", groups(program, rule_id));
        let open = vec![format!("b.{DONE} = 0")];
        Self::new(table, open, head_columns(program, rule_id))
    }
}

/// A rule that holds whatever there is.
fn without_absent(rule: &Rule) -> Rule {
    Rule {
        absent: Vec::new(),
        ..rule.clone()
    }
}

/// The columns of a fact `h`, as they are in the table of those that are gone.
fn into_gone(program: &Program, relation: usize) -> String {
    let names = named_columns(program, relation);
    let values = names.iter().map(|name| format!("h.{name}"));
    let values: Vec<_> = values.collect();
    format!(
        "INSERT OR IGNORE INTO {} ({ID}, {}, {AT}, {STEP}) SELECT h.{ID}, {}, h.{AT}, ?1",
        gone(program, relation),
        names.join(", "),
        values.join(", ")
    )
}

/// Finds the facts that rest on a fact that is gone, at this place of a rule: with `is_last`, on one that
/// the last step has found.
pub(crate) fn gone_by_premise(
    program: &Program,
    rule_id: usize,
    place: usize,
    is_last: bool,
) -> String {
    let rule = &program.rules[rule_id];
    let step = if is_last {
        format!(" AND g.{STEP} = ?1 - 1")
    } else {
        String::new()
    };
    format!(
        "{} FROM {} AS g CROSS JOIN {} AS h INDEXED BY {} WHERE h.{} = g.{ID} AND \
         h.{RULE} = {rule_id}{step}",
        into_gone(program, rule.relation),
        gone(program, rule.atoms[place].relation),
        quoted(&program.table(rule.relation)),
        by_premise(program, rule.relation, place),
        premise(place)
    )
}

/// The index of a table by what its facts rest on at a place.
fn by_premise(program: &Program, relation: usize, place: usize) -> String {
    quoted(&format!("_by_p{place}_{}", program.table(relation)))
}

/// Makes that index.
pub(crate) fn make_premise_lookup(program: &Program, relation: usize, place: usize) -> String {
    format!(
        "CREATE INDEX IF NOT EXISTS {} ON {} ({}, {RULE})",
        by_premise(program, relation, place),
        quoted(&program.table(relation)),
        premise(place)
    )
}

/// Finds the facts that a rule derived since something was absent that came.
pub(crate) fn gone_by_presence(program: &Program, rule_id: usize, absent: &Atom) -> Statement {
    let rule = &program.rules[rule_id];
    let beside = Beside::added(program, absent);
    let all = vec![Rows::All; rule.atoms.len()];
    let mut compiler = Compiler::of_body(program, &without_absent(rule), &all, Some(&beside));
    let table = quoted(&program.table(rule.relation));
    compiler.tables.push(format!("{table} AS h"));
    for (column, is) in head_columns(program, rule_id) {
        let is = compiler.expression(&is);
        compiler.conditions.push(format!("h.{column} = {is}"));
    }
    if rule.head.is_empty() {
        compiler.conditions.push(format!("h.{UNIT} = 0"));
    }
    compiler.conditions.push(format!("h.{RULE} = {rule_id}"));
    for place in 0..rule.atoms.len() {
        let is = format!("h.{} = a{place}.{ID}", premise(place));
        compiler.conditions.push(is);
    }
    Statement {
        sql: format!("{} {}", into_gone(program, rule.relation), compiler.from()),
        lookups: compiler.lookups,
    }
}

/// Finds the groups of an aggregate that an atom of it is of, whose rows are these: what has to be absent
/// may be there.
pub(crate) fn touched_groups(
    program: &Program,
    rule_id: usize,
    atom: Option<usize>,
    beside: &Beside,
) -> Statement {
    let mut rule = without_absent(&program.rules[rule_id]);
    if let Some(place) = atom {
        rule.atoms.remove(place);
    }
    let all = vec![Rows::All; rule.atoms.len()];
    let mut compiler = Compiler::of_body(program, &rule, &all, Some(beside));
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for (name, is) in head_columns(program, rule_id) {
        let value = compiler.expression(&is);
        compiler.conditions.push(format!("{value} IS NOT NULL"));
        names.push(name);
        values.push(value);
    }
    // Of a single group one way is enough.
    let most = if names.is_empty() { " LIMIT 1" } else { "" };
    if names.is_empty() {
        names.push(UNIT.into());
        values.push("0".into());
    }
    Statement {
        sql: format!(
            "INSERT OR IGNORE INTO {} ({}) SELECT {} {}{most}",
            groups(program, rule_id),
            names.join(", "),
            values.join(", "),
            compiler.from()
        ),
        lookups: compiler.lookups,
    }
}

/// Has the groups calculated again that facts are of which are gone: the aggregate may be another reason
/// for them.
pub(crate) fn groups_of_gone(program: &Program, rule_id: usize) -> String {
    let gone = gone(program, program.rules[rule_id].relation);
    let groups = groups(program, rule_id);
    let keys = keys_of(program, rule_id).join(", ");
    if keys.is_empty() {
        return format!("INSERT OR IGNORE INTO {groups} ({UNIT}) SELECT 0 FROM {gone} LIMIT 1");
    }
    format!("INSERT OR IGNORE INTO {groups} ({keys}) SELECT {keys} FROM {gone}")
}

/// Calculates groups of an aggregate again.
pub(crate) fn calculate_groups(program: &Program, rule_id: usize) -> Statement {
    let rule = &program.rules[rule_id];
    let all = vec![Rows::All; rule.atoms.len()];
    let beside = Beside::groups(program, rule_id);
    let select = derived(program, rule_id, &all, Some(&beside));
    let table = again(program, rule_id);
    Statement {
        sql: format!("INSERT OR REPLACE INTO {table} {}", select.sql),
        lookups: select.lookups,
    }
}

/// Finds the facts of groups that come to something else now.
pub(crate) fn gone_by_groups(program: &Program, rule_id: usize) -> Statement {
    let relation = program.rules[rule_id].relation;
    let (keys, names) = (keys_of(program, rule_id), named_columns(program, relation));
    let mut is_of = vec![format!("h.{RULE} = {rule_id} AND g.{DONE} = 0")];
    is_of.extend(keys.iter().map(|key| format!("h.{key} = g.{key}")));
    let same = names.iter().map(|name| format!("t.{name} = h.{name}"));
    let same: Vec<_> = same.collect();
    let lookups = if keys.is_empty() {
        Vec::new()
    } else {
        vec![(relation, key_places(program, rule_id))]
    };
    let sql = format!(
        "{} FROM {} AS g CROSS JOIN {} AS h WHERE {} AND NOT EXISTS (SELECT 1 FROM {} AS t \
         WHERE {} AND t.{AT} <= h.{AT})",
        into_gone(program, relation),
        groups(program, rule_id),
        quoted(&program.table(relation)),
        is_of.join(" AND "),
        again(program, rule_id),
        same.join(" AND ")
    );
    Statement { sql, lookups }
}

/// Says that groups have been calculated again.
pub(crate) fn groups_are_done(program: &Program, rule_id: usize) -> String {
    let groups = groups(program, rule_id);
    format!("UPDATE {groups} SET {DONE} = 1 WHERE {DONE} = 0")
}

/// Adds what the groups of an aggregate come to.
pub(crate) fn insert_groups(program: &Program, rule_id: usize) -> Statement {
    let rule = &program.rules[rule_id];
    let columns = named_columns(program, rule.relation).join(", ");
    let sql = format!(
        "INSERT INTO {} ({columns}, {AT}, {ROUND}, {RULE}) SELECT {columns}, {AT}, ?1, {RULE} \
         FROM {} WHERE 1{}",
        quoted(&program.table(rule.relation)),
        again(program, rule_id),
        on_conflict(program, rule.relation, rule)
    );
    let lookups = Vec::new();
    Statement { sql, lookups }
}

/// Takes facts away that are gone.
pub(crate) fn delete_gone(program: &Program, relation: usize) -> String {
    format!(
        "DELETE FROM {} WHERE {ID} IN (SELECT {ID} FROM {})",
        quoted(&program.table(relation)),
        gone(program, relation)
    )
}
