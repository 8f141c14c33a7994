//! Everything that follows from the facts.

use crate::database::Database;
use rusqlite::ErrorCode;

use crate::error::{Doing, Error, Result};
use crate::functions::OVERFLOW;
use crate::program::{Program, Rule};
use crate::sql::{
    AT, ID, ROUND, RULE, Rows, Statement, UNIT, by_round, insert, named_columns, premise, quoted,
    type_name,
};

/// So many rounds end an evaluation.
const ROUNDS_MAX: u64 = 2_000_000;

/// Where the rules of derived facts are written down, for those who look by hand.
pub(crate) const RULES: &str = "_rules";

impl Database {
    /// Derives everything that follows, with the first derivation of each fact. What an earlier
    /// evaluation of rules with the same prefix derived is gone.
    ///
    /// # Errors
    /// If the rules have no end or derive too much, a number does not fit, the database fails, or it
    /// is to stop ([`Database::stop_when`]).
    pub fn evaluate(&mut self, program: &Program) -> Result<()> {
        self.forget(program)?;
        self.whole(|database| {
            database.make_derived(program)?;
            let rounds = database.derive(program)?;
            database.write_marks(program, rounds)
        })
    }

    /// Has all be derived, or nothing, in the room that there is for it.
    pub(crate) fn whole<T>(&mut self, derive: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        self.bound_growth(self.growth_max_bytes())?;
        self.run("BEGIN")?;
        let derived = derive(self);
        let derived = derived.and_then(|derived| self.run("COMMIT").map(|()| derived));
        if derived.is_err() {
            let _ = self.run("ROLLBACK");
        }
        // What is added later has its room.
        self.bound_growth(u64::MAX)?;
        derived
    }

    /// Drops the tables of an evaluation.
    fn forget(&self, program: &Program) -> Result<()> {
        self.forget_marks(Some(&program.prefix))?;
        self.forget_changes()?;
        self.run(&format!(
            "CREATE TABLE IF NOT EXISTS {RULES} (prefix TEXT, id INTEGER, relation TEXT, tabled TEXT, \
             source TEXT, line INTEGER, rule TEXT)"
        ))?;
        let doing = || "look for earlier tables".to_owned();
        let sql = format!("SELECT DISTINCT tabled FROM {RULES} WHERE prefix = ?1");
        let mut tables = self.connection.prepare(&sql).doing(doing)?;
        let tables = tables.query_map([&program.prefix], |row| row.get::<_, String>(0));
        let tables = tables.and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>);
        for table in tables.doing(doing)? {
            self.run(&format!("DROP TABLE IF EXISTS {}", quoted(&table)))?;
        }
        let sql = format!("DELETE FROM {RULES} WHERE prefix = ?1");
        let deleted = self.connection.execute(&sql, [&program.prefix]);
        deleted.doing(doing).map(|_| ())
    }

    fn make_derived(&self, program: &Program) -> Result<()> {
        for (id, relation) in program.relations.iter().enumerate() {
            if !relation.is_input() {
                self.make_table(program, id)?;
            }
        }
        let sql = format!("INSERT INTO {RULES} VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)");
        for (id, rule) in program.rules.iter().enumerate() {
            let Rule { source, text, .. } = rule;
            let relation = &program.relations[rule.relation].name;
            let table = program.table(rule.relation);
            let row = rusqlite::params![
                program.prefix,
                id as i64,
                relation,
                table,
                source,
                rule.at.line,
                text
            ];
            let written = self.connection.execute(&sql, row);
            written.doing(|| "write rules down".into())?;
        }
        Ok(())
    }

    fn make_table(&self, program: &Program, id: usize) -> Result<()> {
        let relation = &program.relations[id];
        let mut columns = vec![format!("{ID} INTEGER PRIMARY KEY")];
        columns.extend(relation.columns.iter().map(|column| {
            format!(
                "{} {} NOT NULL",
                quoted(&column.name),
                type_name(column.kind)
            )
        }));
        if relation.columns.is_empty() {
            columns.push(format!("{UNIT} INTEGER NOT NULL"));
        }
        for name in [AT, ROUND, RULE] {
            columns.push(format!("{name} INTEGER NOT NULL"));
        }
        let premises = 0..program.premises_max(id);
        columns.extend(premises.map(|place| format!("{} INTEGER", premise(place))));
        let unique = named_columns(program, id).join(", ");
        self.run(&format!(
            "CREATE TABLE {} ({}, UNIQUE ({unique})) STRICT",
            quoted(&program.table(id)),
            columns.join(", ")
        ))
    }

    /// In how many rounds it was done.
    fn derive(&self, program: &Program) -> Result<u64> {
        let mut round = 0;
        for stratum in &program.strata {
            self.derive_stratum(program, stratum, &mut round)?;
        }
        Ok(round)
    }

    /// Evaluates relations that depend on each other: all their rules once, and then the rules with
    /// what the last round added, until a round adds nothing.
    fn derive_stratum(&self, program: &Program, stratum: &[usize], round: &mut u64) -> Result<()> {
        let rules = program.rules.iter().enumerate();
        let rules: Vec<_> = rules
            .filter(|(_, rule)| stratum.contains(&rule.relation))
            .collect();
        let mut facts = 0;
        *round += 1;
        for (id, rule) in &rules {
            let all = vec![Rows::All; rule.atoms.len()];
            let statement = insert(program, *id, &all);
            self.make_lookups(program, &statement)?;
            facts += self.execute(program, rule, &statement, *round)?;
            if self.are_too_many(program, stratum, &mut facts)? {
                return Err(self.too_many(program, rule));
            }
        }
        let later = rules.iter().flat_map(|(id, rule)| {
            deltas(program, *id, stratum).map(move |statement| (*rule, statement))
        });
        let later: Vec<_> = later.collect();
        if later.is_empty() {
            return Ok(());
        }
        for relation in stratum {
            self.make_round_lookup(program, *relation)?;
        }
        for (_, statement) in &later {
            self.make_lookups(program, statement)?;
        }
        self.repeat(program, stratum, &later, facts, round)?;
        Ok(())
    }

    /// How many facts there are at most of these relations: no two have one number, and none has 0.
    pub(crate) fn facts_at_most(&self, program: &Program, relations: &[usize]) -> Result<u64> {
        self.sum(program, relations, &format!("ifnull(max({ID}), 0)"))
    }

    /// Whether there are more facts of relations that depend on each other than there may be. So many there
    /// are at most, which becomes what there are if that is not enough to know.
    pub(crate) fn are_too_many(
        &self,
        program: &Program,
        stratum: &[usize],
        facts: &mut u64,
    ) -> Result<bool> {
        if *facts > self.derived_max {
            // One that was found to hold earlier was counted twice.
            *facts = self.sum(program, stratum, "count(*)")?;
        }
        Ok(*facts > self.derived_max)
    }

    /// The sum of something over the tables of relations.
    fn sum(&self, program: &Program, relations: &[usize], what: &str) -> Result<u64> {
        let mut sum = 0;
        for relation in relations {
            let table = quoted(&program.table(*relation));
            let prepared = self
                .connection
                .prepare_cached(&format!("SELECT {what} FROM {table}"));
            let of_it = prepared.and_then(|mut sql| sql.query_row([], |row| row.get::<_, i64>(0)));
            sum += of_it.doing(|| format!("count {table}"))?.unsigned_abs();
        }
        Ok(sum)
    }

    /// Evaluates rules with what the last round added, until a round adds nothing. So many facts of the
    /// stratum there are at most before that; returns how many were derived.
    pub(crate) fn repeat(
        &self,
        program: &Program,
        stratum: &[usize],
        rules: &[(&Rule, Statement)],
        mut facts: u64,
        round: &mut u64,
    ) -> Result<u64> {
        let begun = *round;
        let mut derived = 0;
        loop {
            *round += 1;
            let mut added = 0;
            for (rule, statement) in rules {
                added += self.execute(program, rule, statement, *round)?;
            }
            derived += added;
            facts += added;
            if added == 0 {
                return Ok(derived);
            }
            let rounds = *round - begun;
            if self.are_too_many(program, stratum, &mut facts)? || rounds > ROUNDS_MAX {
                return Err(Error::NoEnd {
                    relation: program.relations[stratum[0]].name.clone(),
                    facts,
                    rounds,
                });
            }
        }
    }

    /// Has the facts of a relation be found by their round.
    pub(crate) fn make_round_lookup(&self, program: &Program, relation: usize) -> Result<()> {
        let name = by_round(program, relation);
        let table = quoted(&program.table(relation));
        self.run(&format!(
            "CREATE INDEX IF NOT EXISTS {name} ON {table} ({ROUND})"
        ))
    }

    /// Makes the indexes that a statement needs.
    pub(crate) fn make_lookups(&self, program: &Program, statement: &Statement) -> Result<()> {
        for (relation, columns) in &statement.lookups {
            let is_first = columns
                .iter()
                .enumerate()
                .all(|(place, column)| place == *column);
            if is_first && !program.relations[*relation].is_input() {
                // The table is unique by its columns, in their order.
                continue;
            }
            let table = program.table(*relation);
            let places: Vec<_> = columns.iter().map(ToString::to_string).collect();
            let name = quoted(&format!("_by_{}_{table}", places.join("_")));
            let named = named_columns(program, *relation);
            let columns: Vec<_> = columns.iter().map(|place| named[*place].as_str()).collect();
            self.run(&format!(
                "CREATE INDEX IF NOT EXISTS {name} ON {} ({})",
                quoted(&table),
                columns.join(", ")
            ))?;
        }
        Ok(())
    }

    /// How many facts a statement has added, or found to hold earlier.
    pub(crate) fn execute(
        &self,
        program: &Program,
        rule: &Rule,
        statement: &Statement,
        round: u64,
    ) -> Result<u64> {
        // A short statement may end before the database asks.
        if (self.stops)() {
            return Err(Error::Interrupted);
        }
        let name = &program.relations[rule.relation].name;
        let prepared = self.connection.prepare_cached(&statement.sql);
        let done = prepared.and_then(|mut prepared| match prepared.parameter_count() {
            0 => prepared.execute([]),
            _ => prepared.execute([round as i64]),
        });
        match done {
            Err(error) if is_too_large(&error) => Err(Error::TooLarge {
                relation: name.clone(),
            }),
            Err(error) if self.is_in_memory && is_full(&error) => Err(self.too_many(program, rule)),
            done => Ok(done.doing(|| format!("evaluate a rule of {name}"))? as u64),
        }
    }

    pub(crate) fn too_many(&self, program: &Program, rule: &Rule) -> Error {
        Error::TooMany {
            relation: program.relations[rule.relation].name.clone(),
            facts: self.derived_max,
        }
    }
}

fn is_too_large(error: &rusqlite::Error) -> bool {
    error.to_string().contains(OVERFLOW)
}

fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

/// The statements of a rule for later rounds: each looks at what is new of one atom, at what was
/// there before of those before it, and at all of the others.
pub(crate) fn deltas<'a>(
    program: &'a Program,
    id: usize,
    stratum: &'a [usize],
) -> impl Iterator<Item = Statement> + 'a {
    let atoms = &program.rules[id].atoms;
    let is_growing = |place: usize| stratum.contains(&atoms[place].relation);
    let places = (0..atoms.len()).filter(move |place| is_growing(*place));
    places.map(move |new| {
        let rows = (0..atoms.len()).map(|place| {
            if !stratum.contains(&atoms[place].relation) || place > new {
                Rows::All
            } else if place == new {
                Rows::New
            } else {
                Rows::Old
            }
        });
        insert(program, id, &rows.collect::<Vec<_>>())
    })
}
