//! A rule as a statement of the database.

use std::collections::{BTreeMap, BTreeSet};

use crate::program::{Atom, Head, Origin, Program, Rule};
use crate::safety::assignment;
use crate::syntax::{Aggregate, Condition, Expression, Kind, Term, Value};

pub(crate) mod changes;

/// When a fact that was derived began to hold, in nanoseconds.
pub(crate) const AT: &str = "_at";
/// In which round it was derived.
pub(crate) const ROUND: &str = "_round";
/// By which rule.
pub(crate) const RULE: &str = "_rule";
/// The row of a fact.
pub(crate) const ID: &str = "_id";
/// What a relation without columns has, since a table has some.
pub(crate) const UNIT: &str = "_unit";

/// The column with the row of a premise.
pub(crate) fn premise(place: usize) -> String {
    format!("_p{place}")
}

/// Which rows of an atom a statement looks at, of relations that are not complete yet. `?1` is the
/// number of the round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    All,
    /// Those that the last round added: the delta.
    New,
    /// Those that were there before the last round.
    Old,
    /// Those that came since the program was last evaluated, or hold from an earlier moment on.
    Added,
}

/// What the tables of an evaluation have come to: of each input relation its last row, and without a
/// name the last round.
pub(crate) const MARKS: &str = "_marks";
/// What the last round is called among them.
pub(crate) const LAST_ROUND: &str = "";

/// Rows that the body of a rule is joined with, called `b`: its variables begin with what they say.
pub(crate) struct Beside {
    table: String,
    demands: Vec<String>,
    /// What its columns have to be.
    columns: Vec<(String, Expression)>,
}

impl Beside {
    /// The rows of a table that fulfil these demands.
    pub(crate) fn new(
        table: String,
        demands: Vec<String>,
        columns: Vec<(String, Expression)>,
    ) -> Self {
        Self {
            table,
            demands,
            columns,
        }
    }

    /// The rows that came to the relation of an atom and fit it.
    pub(crate) fn added(program: &Program, atom: &Atom) -> Self {
        let (table, demand) = rows_of(program, atom.relation, "b", Rows::Added);
        Self::new(table, demand.into_iter().collect(), asked(program, atom))
    }
}

/// What an atom asks of columns.
pub(crate) fn asked(program: &Program, atom: &Atom) -> Vec<(String, Expression)> {
    let columns = program.relations[atom.relation].columns.iter();
    let asked = columns.zip(&atom.terms).filter_map(|(column, term)| {
        let is = match term {
            Term::Any => return None,
            Term::Constant(value) => Expression::Constant(value.clone(), atom.at),
            Term::Variable(name) => Expression::Variable(name.clone(), atom.at),
        };
        Some((quoted(&column.name), is))
    });
    asked.collect()
}

/// The index of a table by the rounds of its facts.
pub(crate) fn by_round(program: &Program, relation: usize) -> String {
    quoted(&format!("_by_round_{}", program.table(relation)))
}

/// The table of a relation under another name, and what is demanded of its rows. What changed is found
/// by when it did, whatever else is asked of it: a constant may be that of most rows.
fn rows_of(
    program: &Program,
    relation: usize,
    alias: &str,
    rows: Rows,
) -> (String, Option<String>) {
    let table = quoted(&program.table(relation));
    let by_round = format!("INDEXED BY {}", by_round(program, relation));
    let is_input = program.relations[relation].is_input();
    let (found, demand) = match rows {
        Rows::All => (String::new(), None),
        Rows::New => (by_round, Some(format!("{alias}.{ROUND} = ?1 - 1"))),
        Rows::Old => (String::new(), Some(format!("{alias}.{ROUND} < ?1 - 1"))),
        Rows::Added if is_input => {
            let last = mark(program, &program.relations[relation].name);
            ("NOT INDEXED".into(), Some(format!("{alias}.{ID} > {last}")))
        }
        Rows::Added => {
            let last = mark(program, LAST_ROUND);
            (by_round, Some(format!("{alias}.{ROUND} > {last}")))
        }
    };
    (format!("{table} AS {alias} {found}"), demand)
}

/// What was written down of an input relation, or of the rounds.
fn mark(program: &Program, of: &str) -> String {
    format!(
        "(SELECT last FROM {MARKS} WHERE prefix = {} AND relation = {})",
        text(&program.prefix),
        text(of)
    )
}

/// A rule to be evaluated.
pub(crate) struct Statement {
    pub(crate) sql: String,
    /// The columns that it looks tables up by: of a relation, which.
    pub(crate) lookups: Vec<(usize, Vec<usize>)>,
}

pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

pub(crate) fn constant(value: &Value) -> String {
    match value {
        // The smallest number has no positive twin.
        Value::Integer(i64::MIN) => "(-9223372036854775807 - 1)".into(),
        Value::Integer(number) if *number < 0 => format!("({number})"),
        Value::Integer(number) => number.to_string(),
        Value::Text(value) => text(value),
    }
}

pub(crate) fn type_name(kind: Option<Kind>) -> &'static str {
    match kind {
        Some(Kind::Integer) => "INTEGER",
        Some(Kind::Text) => "TEXT",
        None => "ANY",
    }
}

/// Where the values of variables are.
type Bound = BTreeMap<String, String>;

struct Compiler<'a> {
    program: &'a Program,
    bound: Bound,
    tables: Vec<String>,
    conditions: Vec<String>,
    lookups: Vec<(usize, Vec<usize>)>,
}

/// The statement that adds what a rule derives; `rows` says which rows of each of its atoms count.
pub(crate) fn insert(program: &Program, rule_id: usize, rows: &[Rows]) -> Statement {
    let select = derived(program, rule_id, rows, None);
    let rule = &program.rules[rule_id];
    Statement {
        sql: into(program, rule) + &select.sql + &on_conflict(program, rule.relation, rule),
        lookups: select.lookups,
    }
}

/// The statement that adds what a rule that is no aggregate derives beside these rows.
pub(crate) fn insert_beside(program: &Program, rule_id: usize, beside: &Beside) -> Statement {
    let rule = &program.rules[rule_id];
    let all = vec![Rows::All; rule.atoms.len()];
    let select = derived(program, rule_id, &all, Some(beside));
    Statement {
        sql: into(program, rule) + &select.sql + &on_conflict(program, rule.relation, rule),
        lookups: select.lookups,
    }
}

/// What a rule derives: the values of the head, the moment, the round, the rule and the premises.
pub(crate) fn derived(
    program: &Program,
    rule_id: usize,
    rows: &[Rows],
    beside: Option<&Beside>,
) -> Statement {
    let rule = &program.rules[rule_id];
    let mut compiler = Compiler::of_body(program, rule, rows, beside);
    let select = if rule.is_aggregate() {
        compiler.aggregated(rule, rule_id)
    } else {
        compiler.selected(rule, rule_id)
    };
    Statement {
        sql: select,
        lookups: compiler.lookups,
    }
}

/// The order in which atoms are joined: what is new first, then what is bound most.
fn join_order(rule: &Rule, rows: &[Rows], mut bound: BTreeSet<String>) -> Vec<usize> {
    let mut left: Vec<usize> = (0..rule.atoms.len()).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let weight = |place: &usize| {
            let known = |term: &&Term| match term {
                Term::Variable(name) => bound.contains(name),
                Term::Constant(_) => true,
                Term::Any => false,
            };
            let known = rule.atoms[*place].terms.iter().filter(known).count();
            let is_new = matches!(rows[*place], Rows::New | Rows::Added);
            (is_new, known, std::cmp::Reverse(*place))
        };
        let next = left
            .iter()
            .copied()
            .max_by_key(weight)
            .expect("one is left");
        left.retain(|place| *place != next);
        bound.extend(crate::safety::variables(&rule.atoms[next]));
        order.push(next);
    }
    order
}

/// The columns that what a rule derives is put into.
fn into(program: &Program, rule: &Rule) -> String {
    let mut columns = named_columns(program, rule.relation);
    columns.extend([AT, ROUND, RULE].map(str::to_owned));
    if !rule.is_aggregate() {
        columns.extend((0..rule.atoms.len()).map(premise));
    }
    let table = quoted(&program.table(rule.relation));
    format!("INSERT INTO {table} ({}) ", columns.join(", "))
}

/// The columns of a relation, quoted.
pub(crate) fn named_columns(program: &Program, relation: usize) -> Vec<String> {
    let columns = &program.relations[relation].columns;
    if columns.is_empty() {
        return vec![UNIT.into()];
    }
    columns.iter().map(|column| quoted(&column.name)).collect()
}

/// A fact that is derived again is the one that began to hold first: its derivation rests on facts
/// that began before it was known by this one, so no derivation rests on itself.
pub(crate) fn on_conflict(program: &Program, relation: usize, rule: &Rule) -> String {
    let columns = named_columns(program, relation).join(", ");
    let mut set: Vec<String> = [AT, ROUND, RULE].map(str::to_owned).to_vec();
    let kept = if rule.is_aggregate() {
        0
    } else {
        rule.atoms.len()
    };
    set.extend((0..kept).map(premise));
    let set = set.iter().map(|name| format!("{name} = excluded.{name}"));
    let set: Vec<_> = set.collect();
    format!(
        " ON CONFLICT ({columns}) DO UPDATE SET {} WHERE excluded.{AT} < {AT}",
        set.join(", ")
    )
}

impl<'a> Compiler<'a> {
    fn new(program: &'a Program, bound: Bound) -> Self {
        Self {
            program,
            bound,
            tables: Vec::new(),
            conditions: Vec::new(),
            lookups: Vec::new(),
        }
    }

    /// What the body of a rule demands.
    fn of_body(program: &'a Program, rule: &Rule, rows: &[Rows], beside: Option<&Beside>) -> Self {
        let mut compiler = Self::new(program, Bound::new());
        if let Some(beside) = beside {
            compiler.begin(beside);
        }
        let bound = compiler.bound.keys().cloned().collect();
        for place in join_order(rule, rows, bound) {
            compiler.join(place, &rule.atoms[place], rows[place]);
        }
        for (condition, _) in &rule.conditions {
            compiler.condition(condition);
        }
        for (place, atom) in rule.absent.iter().enumerate() {
            compiler.absent(place, atom);
        }
        for (column, is) in beside.iter().flat_map(|beside| &beside.columns) {
            let is = compiler.expression(is);
            compiler.conditions.push(format!("b.{column} = {is}"));
        }
        compiler
    }

    /// Begins with other rows, whose columns say what variables are.
    fn begin(&mut self, beside: &Beside) {
        self.tables.push(beside.table.clone());
        self.conditions.extend(beside.demands.iter().cloned());
        for (column, is) in &beside.columns {
            if let Expression::Variable(name, _) = is {
                let column = || format!("b.{column}");
                self.bound.entry(name.clone()).or_insert_with(column);
            }
        }
    }

    /// The column of an atom.
    fn column(&self, alias: &str, atom: &Atom, place: usize) -> String {
        let column = &self.program.relations[atom.relation].columns[place];
        format!("{alias}.{}", quoted(&column.name))
    }

    fn join(&mut self, place: usize, atom: &Atom, rows: Rows) {
        let alias = format!("a{place}");
        let (table, demand) = rows_of(self.program, atom.relation, &alias, rows);
        self.tables.push(table);
        self.conditions.extend(demand);
        let known = self.equalities(&alias, atom, true);
        self.conditions.extend(known);
    }

    /// What the terms of an atom demand. With `binds`, its new variables are known from then on.
    fn equalities(&mut self, alias: &str, atom: &Atom, binds: bool) -> Vec<String> {
        let mut demands = Vec::new();
        let before = self.bound.clone();
        let mut looked_up = Vec::new();
        let mut has_variable = false;
        for (place, term) in atom.terms.iter().enumerate() {
            let column = self.column(alias, atom, place);
            match term {
                Term::Any => {}
                Term::Constant(value) => {
                    demands.push(format!("{column} = {}", constant(value)));
                    looked_up.push(place);
                }
                Term::Variable(name) => match self.bound.get(name) {
                    Some(known) => {
                        demands.push(format!("{column} = {known}"));
                        if before.contains_key(name) {
                            looked_up.push(place);
                            has_variable = true;
                        }
                    }
                    None if binds => {
                        self.bound.insert(name.clone(), column);
                    }
                    None => unreachable!("what is absent binds nothing"),
                },
            }
        }
        // What only constants are asked of is read through: most rows may have them.
        if has_variable {
            self.lookups.push((atom.relation, looked_up));
        }
        demands
    }

    fn absent(&mut self, place: usize, atom: &Atom) {
        let alias = format!("n{place}");
        let table = quoted(&self.program.table(atom.relation));
        let mut demands = self.equalities(&alias, atom, false);
        demands.push("1".into());
        self.conditions.push(format!(
            "NOT EXISTS (SELECT 1 FROM {table} AS {alias} WHERE {})",
            demands.join(" AND ")
        ));
    }

    fn condition(&mut self, condition: &Condition) {
        let names = self.bound.keys().cloned().collect();
        if let Some((name, value)) = assignment(condition, &names) {
            let value = self.expression(value);
            self.conditions.push(format!("{value} IS NOT NULL"));
            self.bound.insert(name.to_owned(), value);
            return;
        }
        let demand = match condition {
            Condition::Compare(left, comparison, right) => format!(
                "{} {} {}",
                self.expression(left),
                comparison.sign(),
                self.expression(right)
            ),
            Condition::Match(of, pattern, is_there) => format!(
                "matches({}, {}) = {}",
                text(pattern),
                self.expression(of),
                u8::from(*is_there)
            ),
        };
        self.conditions.push(demand);
    }

    fn expression(&self, expression: &Expression) -> String {
        match expression {
            Expression::Variable(name, _) => self.bound[name].clone(),
            Expression::Constant(value, _) => constant(value),
            Expression::Arithmetic(left, operation, right) => {
                let (left, right) = (self.expression(left), self.expression(right));
                format!("{}({left}, {right})", operation.function())
            }
            Expression::Capture(of, pattern) => {
                format!("captured({}, {})", text(pattern), self.expression(of))
            }
            Expression::Number(of) => format!("number({})", self.expression(of)),
        }
    }

    /// When the facts of an atom began to hold.
    fn began(&self, place: usize, atom: &Atom) -> String {
        match self.program.relations[atom.relation].origin {
            Origin::Rules { .. } => format!("a{place}.{AT}"),
            Origin::Input { time: None, .. } => "0".into(),
            Origin::Input {
                time: Some(time), ..
            } => self.column(&format!("a{place}"), atom, time),
        }
    }

    /// When all that a rule rests on held.
    fn all_began(&self, rule: &Rule) -> String {
        let atoms = rule.atoms.iter().enumerate();
        let began: Vec<_> = atoms.map(|(place, atom)| self.began(place, atom)).collect();
        if began.is_empty() {
            return "0".into();
        }
        format!("max(0, {})", began.join(", "))
    }

    /// `FROM … WHERE …`
    fn from(&self) -> String {
        let tables = if self.tables.is_empty() {
            "(SELECT 1)".to_owned()
        } else {
            // The order is ours: the database would have to guess it.
            self.tables.join(" CROSS JOIN ")
        };
        let mut conditions = self.conditions.clone();
        conditions.push("1".into());
        format!("FROM {tables} WHERE {}", conditions.join(" AND "))
    }

    /// The values of the head of a rule that is no aggregate.
    fn selected(&mut self, rule: &Rule, rule_id: usize) -> String {
        let mut values = Vec::new();
        for head in &rule.head {
            let Head::Is(expression) = head else { continue };
            let value = self.expression(expression);
            if may_lack_value(expression) {
                self.conditions.push(format!("{value} IS NOT NULL"));
            }
            values.push(value);
        }
        if values.is_empty() {
            values.push("0".into());
        }
        values.push(self.all_began(rule));
        values.push("?1".into());
        values.push(rule_id.to_string());
        values.extend((0..rule.atoms.len()).map(|place| format!("a{place}.{ID}")));
        format!("SELECT {} {}", values.join(", "), self.from())
    }

    /// An aggregate is over the ways in which the body holds, told apart by its named variables.
    fn aggregated(&self, rule: &Rule, rule_id: usize) -> String {
        let mut inner = Vec::new();
        let mut names = Bound::new();
        for (place, (name, value)) in self.bound.iter().enumerate() {
            inner.push(format!("{value} AS _v{place}"));
            names.insert(name.clone(), format!("_v{place}"));
        }
        let ways: Vec<_> = names.values().cloned().collect();
        inner.push(format!("min({}) AS _began", self.all_began(rule)));
        let mut outer = Self::new(self.program, names);
        outer.conditions.push("1".into());
        let select = outer.grouped(rule, rule_id);
        let ways = format!(
            "(SELECT {} {} GROUP BY {})",
            inner.join(", "),
            self.from(),
            ways.join(", ")
        );
        select.replace(WAYS, &ways)
    }

    /// The values of the head of an aggregate, of rows that are ways in which its body holds.
    fn grouped(mut self, rule: &Rule, rule_id: usize) -> String {
        let by = self.groups(rule);
        let conditions = self.conditions.join(" AND ");
        if let [(Aggregate::Min | Aggregate::Max, _)] = rule.aggregates()[..] {
            return self.extreme(rule, rule_id, &by);
        }
        let values: Vec<_> = rule
            .head
            .iter()
            .map(|head| match head {
                Head::Is(expression) => self.expression(expression),
                Head::Aggregate(Aggregate::Count, name, _) => {
                    format!("count(DISTINCT {})", self.bound[name])
                }
                Head::Aggregate(other, name, _) => {
                    format!("{}({})", other.word(), self.bound[name])
                }
            })
            .collect();
        let by = match by.as_slice() {
            [] => String::new(),
            by => format!("GROUP BY {} ", by.join(", ")),
        };
        format!(
            "SELECT {}, max(_began), ?1, {rule_id} FROM {WAYS} WHERE {conditions} {by}\
             HAVING count(*) > 0",
            values.join(", ")
        )
    }

    /// What the rows of a group have in common.
    fn groups(&mut self, rule: &Rule) -> Vec<String> {
        let mut by = Vec::new();
        for head in &rule.head {
            let Head::Is(expression) = head else { continue };
            let value = self.expression(expression);
            if may_lack_value(expression) {
                self.conditions.push(format!("{value} IS NOT NULL"));
            }
            // A number alone would be that of a column.
            if !matches!(expression, Expression::Constant(..)) {
                by.push(value);
            }
        }
        by
    }

    /// A minimum or a maximum is that of one row, and holds from when on that held.
    fn extreme(&self, rule: &Rule, rule_id: usize, by: &[String]) -> String {
        let (mut values, mut order) = (Vec::new(), String::new());
        for head in &rule.head {
            match head {
                Head::Is(expression) => values.push(self.expression(expression)),
                Head::Aggregate(aggregate, name, _) => {
                    let value = self.bound[name].clone();
                    let is_down = *aggregate == Aggregate::Max;
                    order = format!("{value}{}", if is_down { " DESC" } else { "" });
                    values.push(value);
                }
            }
        }
        let by = match by {
            [] => String::new(),
            by => format!("PARTITION BY {} ", by.join(", ")),
        };
        format!(
            "SELECT {}, _began, ?1, {rule_id} FROM (SELECT *, row_number() OVER \
             ({by}ORDER BY {order}, _began) AS _place FROM {WAYS} WHERE {}) WHERE _place = 1",
            values.join(", "),
            self.conditions.join(" AND ")
        )
    }
}

impl Compiler<'_> {
    /// The order in which those ways are first that the first minimum or maximum of a head is of, and
    /// of these the one that held first; none if there is no such.
    fn extreme_first(&self, rule: &Rule, fact: &[Value]) -> Option<String> {
        let mut head = rule.head.iter().zip(fact);
        head.find_map(|(head, value)| match head {
            Head::Aggregate(Aggregate::Min | Aggregate::Max, name, _) => {
                let (is, value) = (&self.bound[name], constant(value));
                Some(format!(
                    " ORDER BY {is} <> {value}, {}",
                    self.all_began(rule)
                ))
            }
            _ => None,
        })
    }
}

/// Stands for the rows that an aggregate is over.
const WAYS: &str = "\u{1}ways";

/// Whether what is calculated may have no value: then the body does not hold.
fn may_lack_value(expression: &Expression) -> bool {
    !matches!(
        expression,
        Expression::Variable(..) | Expression::Constant(..)
    )
}

/// The statement that finds the premises of an aggregate: the rows of its atoms in each way in which
/// its body holds, where the places of the head that are no aggregates have these values. First are
/// those that a minimum or a maximum of this value is of.
pub(crate) fn ways(program: &Program, rule_id: usize, fact: &[Value]) -> String {
    let rule = &program.rules[rule_id];
    let all = vec![Rows::All; rule.atoms.len()];
    let mut compiler = Compiler::of_body(program, rule, &all, None);
    for (head, value) in rule.head.iter().zip(fact) {
        if let Head::Is(expression) = head {
            let is = compiler.expression(expression);
            compiler
                .conditions
                .push(format!("{is} = {}", constant(value)));
        }
    }
    let ids = (0..rule.atoms.len()).map(|place| format!("a{place}.{ID}"));
    let ids: Vec<_> = ids.collect();
    let order = compiler.extreme_first(rule, fact).unwrap_or_default();
    format!("SELECT {} {}{order}", ids.join(", "), compiler.from())
}
