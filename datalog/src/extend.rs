//! What follows from facts that were added to those that were evaluated before, and what does not follow
//! any more.
//!
//! The relations are looked at in the order in which they are evaluated, and only those whose rules ask
//! for one that has changed. A derived fact is gone if what its derivation rests on is gone, or what was
//! absent has come, or its group of an aggregate comes to something else. Its row is taken away, with all
//! that rests on it, and what can be derived in another way is derived again. All other derivations stay
//! right: no fact that stays rests on one that went.

use std::collections::BTreeSet;

use rusqlite::params;

use crate::database::Database;
use crate::error::{Doing, Error, Result};
use crate::evaluate::{RULES, deltas};
use crate::program::{Atom, Program, Rule};
use crate::sql::changes;
use crate::sql::{Beside, ID, LAST_ROUND, MARKS, Rows, Statement, insert, insert_beside, quoted};

/// What an extension came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    /// Everything was evaluated, since there was nothing to extend.
    Anew,
    /// What follows from the new facts.
    By {
        /// So many facts were derived, or hold from an earlier moment on.
        derived: u64,
        /// So many facts were taken back, those among them that were derived again in another way.
        retracted: u64,
    },
}

impl Database {
    /// Derives what follows from the facts that were added since [`Database::evaluate`] or this was
    /// called with these rules, and takes back what does not follow any more. The facts, their times
    /// and their derivations are those that an evaluation of everything could come to.
    ///
    /// The work is that of the consequences: the facts that come and go, what rules join them with, and
    /// the groups of aggregates that they belong to. An atom that has no variable in common with what is
    /// new is read through. The first fact that comes to a relation also costs the indexes by which
    /// others are found.
    ///
    /// Everything is evaluated if nothing was with these rules, or facts were removed since then with
    /// [`Database::remove`]. What was changed in the file by other means is not noticed.
    ///
    /// # Errors
    /// As those of [`Database::evaluate`]. Then what was derived before is still there, and the new
    /// facts are new the next time.
    pub fn extend(&mut self, program: &Program) -> Result<Extended> {
        let Some(round) = self.last_round(program)? else {
            self.evaluate(program)?;
            return Ok(Extended::Anew);
        };
        let extended = self.whole(|database| Extension::new(database, program, round)?.extend());
        if matches!(extended, Err(Error::TooLarge { .. })) {
            // Perhaps of a fact that is not derived in the end.
            self.evaluate(program)?;
            return Ok(Extended::Anew);
        }
        extended
    }

    /// The last round of an evaluation of these rules; nothing if there is none that can be extended.
    fn last_round(&self, program: &Program) -> Result<Option<u64>> {
        if !self.has_table(MARKS)? || !self.has_rules_of(program)? {
            return Ok(None);
        }
        let inputs = program.relations.iter();
        for relation in inputs.filter(|relation| relation.is_input()) {
            if self.mark(program, &relation.name)?.is_none() {
                return Ok(None);
            }
        }
        let round = self.mark(program, LAST_ROUND)?;
        Ok(round.map(i64::unsigned_abs))
    }

    fn mark(&self, program: &Program, of: &str) -> Result<Option<i64>> {
        let sql = format!("SELECT max(last) FROM {MARKS} WHERE prefix = ?1 AND relation = ?2");
        let prepared = self.connection.prepare_cached(&sql);
        let row = params![program.prefix, of];
        let last = prepared.and_then(|mut sql| sql.query_row(row, |row| row.get(0)));
        last.doing(|| "read what was evaluated".into())
    }

    fn has_table(&self, name: &str) -> Result<bool> {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        let prepared = self.connection.prepare_cached(sql);
        let count = prepared.and_then(|mut sql| sql.query_row([name], |row| row.get::<_, i64>(0)));
        Ok(count.doing(|| format!("look for {name}"))? > 0)
    }

    /// Whether the rules that were evaluated last with this prefix are these.
    fn has_rules_of(&self, program: &Program) -> Result<bool> {
        if !self.has_table(RULES)? {
            return Ok(false);
        }
        let doing = || "read the rules of the last evaluation".to_owned();
        let sql = format!("SELECT relation, rule FROM {RULES} WHERE prefix = ?1 ORDER BY id");
        let mut rules = self.connection.prepare_cached(&sql).doing(doing)?;
        let rules = rules.query_map([&program.prefix], |row| Ok((row.get(0)?, row.get(1)?)));
        let rules = rules.and_then(Iterator::collect::<rusqlite::Result<Vec<(String, String)>>>);
        let known = program.rules.iter().map(|rule| {
            let relation = &program.relations[rule.relation].name;
            (relation.clone(), rule.text.clone())
        });
        Ok(rules.doing(doing)? == known.collect::<Vec<_>>())
    }

    /// Writes down which facts have been looked at, and in how many rounds.
    pub(crate) fn write_marks(&self, program: &Program, round: u64) -> Result<()> {
        self.run(&format!(
            "CREATE TABLE IF NOT EXISTS {MARKS} (prefix TEXT NOT NULL, relation TEXT NOT NULL, \
             last INTEGER NOT NULL, PRIMARY KEY (prefix, relation)) STRICT, WITHOUT ROWID"
        ))?;
        let write = |of: &str, last: &str| {
            let sql = format!("INSERT OR REPLACE INTO {MARKS} VALUES (?1, ?2, {last})");
            let prepared = self.connection.prepare_cached(&sql);
            let written = prepared.and_then(|mut sql| sql.execute(params![program.prefix, of]));
            written.doing(|| "write down what was evaluated".into())
        };
        write(LAST_ROUND, &round.to_string())?;
        let inputs = program.relations.iter();
        for relation in inputs.filter(|relation| relation.is_input()) {
            let table = quoted(&relation.name);
            write(
                &relation.name,
                &format!("(SELECT ifnull(max({ID}), 0) FROM {table})"),
            )?;
        }
        Ok(())
    }

    /// Has the next extension of these rules, or of all, begin anew.
    pub(crate) fn forget_marks(&self, prefix: Option<&str>) -> Result<()> {
        if !self.has_table(MARKS)? {
            return Ok(());
        }
        let sql = format!("DELETE FROM {MARKS} WHERE ?1 IS NULL OR prefix = ?1");
        let prepared = self.connection.prepare_cached(&sql);
        let deleted = prepared.and_then(|mut sql| sql.execute([prefix]));
        deleted.doing(|| "forget what was evaluated".into())?;
        Ok(())
    }

    /// Drops what extensions have kept in this connection.
    pub(crate) fn forget_changes(&self) -> Result<()> {
        let doing = || "look for temporary tables".to_owned();
        let sql = "SELECT name FROM temp.sqlite_schema WHERE type = 'table'";
        let mut names = self.connection.prepare_cached(sql).doing(doing)?;
        let names = names.query_map([], |row| row.get::<_, String>(0));
        let names = names.and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>);
        for name in names.doing(doing)? {
            self.run(&format!("DROP TABLE temp.{}", quoted(&name)))?;
        }
        Ok(())
    }
}

/// An extension that is being made.
struct Extension<'a> {
    database: &'a Database,
    program: &'a Program,
    /// The last round.
    round: u64,
    /// The relations that have new facts, or facts that hold from an earlier moment on.
    grown: BTreeSet<usize>,
    /// The relations that have lost facts.
    shrunk: BTreeSet<usize>,
    /// The relations of rules that can lose facts.
    may_shrink: BTreeSet<usize>,
    /// How many facts there are at most of the stratum that is extended.
    facts: u64,
    derived: u64,
    retracted: u64,
}

/// Rules of a stratum, with their numbers.
type Rules<'a> = [(usize, &'a Rule)];

impl<'a> Extension<'a> {
    fn new(database: &'a Database, program: &'a Program, round: u64) -> Result<Self> {
        let loses = |rule: &Rule, known: &BTreeSet<usize>| {
            let mut atoms = rule.atoms.iter();
            rule.is_aggregate()
                || !rule.absent.is_empty()
                || atoms.any(|atom| known.contains(&atom.relation))
        };
        let mut extension = Self {
            database,
            program,
            round,
            grown: BTreeSet::new(),
            shrunk: BTreeSet::new(),
            may_shrink: program.closed(BTreeSet::new(), loses),
            facts: 0,
            derived: 0,
            retracted: 0,
        };
        extension.see_added()?;
        extension.make_tables()?;
        Ok(extension)
    }

    /// Finds the input relations with new facts.
    fn see_added(&mut self) -> Result<()> {
        for (id, relation) in self.program.relations.iter().enumerate() {
            if !relation.is_input() {
                continue;
            }
            let last = self.database.mark(self.program, &relation.name)?;
            let table = quoted(&relation.name);
            let sql = format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE {ID} > ?1)");
            let prepared = self.database.connection.prepare_cached(&sql);
            let is_there = prepared.and_then(|mut sql| sql.query_row([last], |row| row.get(0)));
            if is_there.doing(|| format!("look for new facts of {}", relation.name))? {
                self.grown.insert(id);
            }
        }
        Ok(())
    }

    /// Makes the temporary tables, or empties those that are left.
    fn make_tables(&self) -> Result<()> {
        let program = self.program;
        for relation in &self.may_shrink {
            self.database.run(&changes::make_gone(program, *relation))?;
            self.empty(&changes::gone(program, *relation))?;
        }
        let rules = program.rules.iter().enumerate();
        for (id, _) in rules.filter(|(_, rule)| rule.is_aggregate()) {
            self.database.run(&changes::make_groups(program, id))?;
            self.empty(&changes::groups(program, id))?;
            self.empty(&changes::again(program, id))?;
        }
        Ok(())
    }

    fn empty(&self, table: &str) -> Result<()> {
        self.database.run(&format!("DELETE FROM {table}"))
    }

    fn extend(mut self) -> Result<Extended> {
        for relation in self.grown.clone() {
            self.touch_groups(relation, Beside::added)?;
        }
        for stratum in &self.program.strata {
            let rules = self.program.rules.iter().enumerate();
            let rules: Vec<_> = rules
                .filter(|(_, rule)| stratum.contains(&rule.relation))
                .collect();
            if rules.iter().any(|(_, rule)| self.is_touched(rule)) {
                self.extend_stratum(stratum, &rules)?;
            }
        }
        self.database.write_marks(self.program, self.round)?;
        Ok(Extended::By {
            derived: self.derived,
            retracted: self.retracted,
        })
    }

    /// Whether a rule asks for something that has changed.
    fn is_touched(&self, rule: &Rule) -> bool {
        let mut atoms = rule.atoms.iter().chain(&rule.absent);
        atoms.any(|Atom { relation, .. }| {
            self.grown.contains(relation) || self.shrunk.contains(relation)
        })
    }

    fn extend_stratum(&mut self, stratum: &[usize], rules: &Rules<'a>) -> Result<()> {
        self.round += 1;
        self.find_gone(stratum, rules)?;
        self.take_away(stratum)?;
        self.facts = self.database.facts_at_most(self.program, stratum)?;
        let mut derived = self.derive_again(stratum, rules)?;
        derived += self.derive_new(stratum, rules)?;
        self.derive_on(stratum, rules, derived)?;
        let grown: Vec<_> = stratum
            .iter()
            .copied()
            .filter(|relation| self.grown.contains(relation))
            .collect();
        for relation in grown {
            self.database.make_round_lookup(self.program, relation)?;
            self.touch_groups(relation, Beside::added)?;
        }
        Ok(())
    }

    /// Finds the facts whose derivations are wrong now.
    fn find_gone(&mut self, stratum: &[usize], rules: &Rules<'a>) -> Result<()> {
        let mut found = 0;
        for (id, rule) in rules {
            if !self.may_shrink.contains(&rule.relation) {
                continue;
            }
            if rule.is_aggregate() {
                self.calculate(*id, rule)?;
                let gone = changes::gone_by_groups(self.program, *id);
                found += self.perform(rule, &gone, 1)?;
                self.run(rule, changes::groups_are_done(self.program, *id))?;
                continue;
            }
            for absent in &rule.absent {
                if self.grown.contains(&absent.relation) {
                    let gone = changes::gone_by_presence(self.program, *id, absent);
                    found += self.perform(rule, &gone, 1)?;
                }
            }
            for (place, atom) in rule.atoms.iter().enumerate() {
                if self.shrunk.contains(&atom.relation) {
                    found += self.find_resting(*id, place, 1)?;
                }
            }
        }
        if found > 0 {
            self.find_all_resting(stratum, rules)?;
        }
        Ok(())
    }

    /// Finds what rests on facts of the stratum that are gone, and what rests on that.
    fn find_all_resting(&self, stratum: &[usize], rules: &Rules<'a>) -> Result<()> {
        let mut step = 1;
        loop {
            step += 1;
            let mut found = 0;
            for (id, rule) in rules.iter().filter(|(_, rule)| !rule.is_aggregate()) {
                for (place, atom) in rule.atoms.iter().enumerate() {
                    if stratum.contains(&atom.relation) {
                        found += self.find_resting(*id, place, step)?;
                    }
                }
            }
            if found == 0 {
                return Ok(());
            }
        }
    }

    /// Finds what rests on a fact that is gone at a place of a rule, after the first step on one that
    /// the step before has found.
    fn find_resting(&self, id: usize, place: usize, step: u64) -> Result<u64> {
        let (program, rule) = (self.program, &self.program.rules[id]);
        if !self.may_shrink.contains(&rule.atoms[place].relation) {
            return Ok(0);
        }
        let lookup = changes::make_premise_lookup(program, rule.relation, place);
        self.database.run(&lookup)?;
        let sql = changes::gone_by_premise(program, id, place, step > 1);
        let lookups = Vec::new();
        self.perform(rule, &Statement { sql, lookups }, step)
    }

    /// Takes the facts away that were found, after what counts them was told.
    fn take_away(&mut self, stratum: &[usize]) -> Result<()> {
        let program = self.program;
        let mut gone = Vec::new();
        for relation in stratum.iter().filter(|id| self.may_shrink.contains(id)) {
            let table = changes::gone(program, *relation);
            let sql = format!("SELECT EXISTS (SELECT 1 FROM {table})");
            let is_some = self
                .database
                .connection
                .query_row(&sql, [], |row| row.get(0));
            if is_some.doing(|| "look for facts that are gone".into())? {
                gone.push(*relation);
            }
        }
        for relation in &gone {
            self.touch_groups(*relation, Beside::gone)?;
        }
        for relation in gone {
            let sql = changes::delete_gone(program, relation);
            let deleted = self.database.connection.execute(&sql, []);
            let name = &program.relations[relation].name;
            self.retracted += deleted.doing(|| format!("take facts of {name} back"))? as u64;
            self.shrunk.insert(relation);
        }
        Ok(())
    }

    /// Derives what is gone in another way, if there is one.
    fn derive_again(&mut self, stratum: &[usize], rules: &Rules<'a>) -> Result<u64> {
        let mut derived = 0;
        for (id, rule) in rules {
            let is_gone = self.shrunk.contains(&rule.relation);
            if rule.is_aggregate() {
                if is_gone {
                    self.run(rule, changes::groups_of_gone(self.program, *id))?;
                    self.calculate(*id, rule)?;
                }
                derived += self.add(stratum, rule, &changes::insert_groups(self.program, *id))?;
            } else if is_gone {
                let gone = Beside::gone_heads(self.program, *id);
                derived += self.add(stratum, rule, &insert_beside(self.program, *id, &gone))?;
            }
        }
        Ok(derived)
    }

    /// Derives what follows from facts that came, and from those that went.
    fn derive_new(&mut self, stratum: &[usize], rules: &Rules<'a>) -> Result<u64> {
        let mut derived = 0;
        for (id, rule) in rules.iter().filter(|(_, rule)| !rule.is_aggregate()) {
            for (place, atom) in rule.atoms.iter().enumerate() {
                if self.is_grown_before(rules, atom) {
                    let mut rows = vec![Rows::All; rule.atoms.len()];
                    rows[place] = Rows::Added;
                    derived += self.add(stratum, rule, &insert(self.program, *id, &rows))?;
                }
            }
            for absent in &rule.absent {
                if self.shrunk.contains(&absent.relation) {
                    let gone = Beside::gone(self.program, absent);
                    derived += self.add(stratum, rule, &insert_beside(self.program, *id, &gone))?;
                }
            }
        }
        Ok(derived)
    }

    /// Whether an atom is of a relation that has grown, and not of these rules.
    fn is_grown_before(&self, rules: &Rules<'a>, atom: &Atom) -> bool {
        let is_own = rules.iter().any(|(_, rule)| rule.relation == atom.relation);
        self.grown.contains(&atom.relation) && !is_own
    }

    /// Derives what follows from what was derived, in rounds.
    fn derive_on(&mut self, stratum: &[usize], rules: &Rules<'a>, derived: u64) -> Result<()> {
        if derived == 0 {
            return Ok(());
        }
        let later = rules.iter().flat_map(|(id, rule)| {
            deltas(self.program, *id, stratum).map(move |statement| (*rule, statement))
        });
        let later: Vec<_> = later.collect();
        if later.is_empty() {
            return Ok(());
        }
        for relation in stratum {
            self.database.make_round_lookup(self.program, *relation)?;
        }
        for (_, statement) in &later {
            self.database.make_lookups(self.program, statement)?;
        }
        let (database, program) = (self.database, self.program);
        self.derived += database.repeat(program, stratum, &later, self.facts, &mut self.round)?;
        // Each relation that others of its stratum rest on may have new facts now.
        self.grown.extend(stratum);
        Ok(())
    }

    /// Calculates the groups of an aggregate again that may have changed.
    fn calculate(&self, id: usize, rule: &Rule) -> Result<()> {
        let calculated = changes::calculate_groups(self.program, id);
        self.perform(rule, &calculated, self.round)?;
        Ok(())
    }

    /// Finds the groups of aggregates that rows of a relation belong to which have changed.
    fn touch_groups(
        &self,
        relation: usize,
        changed: impl Fn(&Program, &Atom) -> Beside,
    ) -> Result<()> {
        let rules = self.program.rules.iter().enumerate();
        for (id, rule) in rules.filter(|(_, rule)| rule.is_aggregate()) {
            let atoms = rule.atoms.iter().enumerate();
            let atoms = atoms.map(|(place, atom)| (Some(place), atom));
            let absent = rule.absent.iter().map(|atom| (None, atom));
            for (place, atom) in atoms.chain(absent) {
                if atom.relation == relation {
                    let beside = changed(self.program, atom);
                    let touched = changes::touched_groups(self.program, id, place, &beside);
                    self.perform(rule, &touched, self.round)?;
                }
            }
        }
        Ok(())
    }

    /// Adds facts of a rule.
    fn add(&mut self, stratum: &[usize], rule: &Rule, statement: &Statement) -> Result<u64> {
        let added = self.perform(rule, statement, self.round)?;
        self.derived += added;
        self.facts += added;
        if added > 0 {
            self.grown.insert(rule.relation);
        }
        let (database, program) = (self.database, self.program);
        if database.are_too_many(program, stratum, &mut self.facts)? {
            return Err(database.too_many(program, rule));
        }
        Ok(added)
    }

    fn run(&self, rule: &Rule, sql: String) -> Result<u64> {
        let lookups = Vec::new();
        self.perform(rule, &Statement { sql, lookups }, self.round)
    }

    /// Executes a statement, with the indexes that it needs.
    fn perform(&self, rule: &Rule, statement: &Statement, number: u64) -> Result<u64> {
        self.database.make_lookups(self.program, statement)?;
        self.database.execute(self.program, rule, statement, number)
    }
}

#[cfg(test)]
mod tests;
