//! `crashpoint rules`: questions to a finished run of `crashpoint inject`, or to a finding of a sweep of
//! crash states, of a file system too, or of a live sweep, in Datalog.

use std::io::{self, Write};
use std::iter::once;
use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use campaign::{Interrupt, MANIFEST, Outcome, OutputFormat, say};
use clap::{Args, Command};
use datalog::{Database, Derivation, Fact, Program, Relation, Unseen, Value};
use injector::LiveManifest;
use injector::online::{FACTS_FILE, RunFacts, RunFiles};
use node_sweep::{Numbered, Recorded, facts_of, load_trace};
use serde_json::json;
use specification::{
    About, FACTS, Specification, UNREADABLE, facts_version, misled_by_unreadable, rows,
};

use crate::finding::{facts_of_file_system, facts_of_live_run};
use crate::inject::Finished;

/// The arguments of `crashpoint rules`.
#[derive(Debug, Args)]
pub(crate) struct RulesArgs {
    /// The results of `crashpoint inject`, `fs`, `app` or `cluster sweep`, which --out named
    #[arg(value_name = "RESULTS")]
    directory: PathBuf,

    /// The number of the run, or of the finding
    #[arg(value_name = "N")]
    number: usize,

    /// Rules, such as 'lost(K) :- acked(K), !served(K).': see docs/specifications.md
    #[arg(value_name = "RULES", required_unless_present_any = ["spec", "facts"])]
    rules: Option<String>,

    /// A file with rules. It can be given several times
    #[arg(long, value_name = "FILE", num_args = 1..)]
    spec: Vec<PathBuf>,

    /// List the facts of it: relations, their columns, and how many facts each has
    #[arg(long, conflicts_with_all = ["rules", "spec"])]
    facts: bool,

    /// Print at most N facts of each relation
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        conflicts_with = "facts"
    )]
    most: u64,

    /// How to print what is found
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

/// What is said of a violation that may be there only since a file system would not show something.
const DOUBTFUL: &str = " (not certain)";

/// Rules of the command line, or of a file.
struct Asked {
    specification: Specification,
    /// What messages call it.
    called: String,
}

/// What rules are asked about.
struct Asking<'a> {
    about: About,
    /// A run that has left out some facts so far.
    run: Option<&'a RunFacts<'a>>,
    /// Why a violation is not certain.
    doubt: Option<String>,
}

impl Asking<'_> {
    /// One that has all facts, of which rules are certain.
    fn of(about: About) -> Self {
        Self {
            about,
            run: None,
            doubt: None,
        }
    }
}

/// Does it.
pub(crate) fn run(
    arguments: &RulesArgs,
    fs: &Command,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    if let Some(recorded) = Recorded::read(&arguments.directory)? {
        return of_crash_state(arguments, &recorded, interrupt);
    }
    if let Some(manifest) = injector::manifest(&arguments.directory)? {
        return of_live_run(arguments, &manifest, interrupt);
    }
    if injector::online::manifest(&arguments.directory)?.is_none() {
        return of_file_system(arguments, fs, interrupt);
    }
    let programs = programs(arguments, About::Run)?;
    let finished = Finished::read(&arguments.directory, arguments.number)?;
    let files = RunFiles::kept(&finished.kept);
    let facts = finished.facts(&files);
    let database = facts.database(Some(&finished.kept.join(FACTS_FILE)))?;
    let of = Asking {
        about: About::Run,
        run: Some(&facts),
        doubt: finished.doubt(),
    };
    answer(arguments, &programs, database, &of, interrupt)
}

/// Asks a finding of a sweep of the crash states of a program or a cluster.
fn of_crash_state(
    arguments: &RulesArgs,
    recorded: &Recorded,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let programs = programs(arguments, About::CrashState)?;
    let Numbered::Finding(finding) = recorded.get(arguments.number)? else {
        bail!(
            "{} is an inconclusive state: rules can be asked of findings",
            arguments.number
        );
    };
    let trace = load_trace(&arguments.directory, &recorded.manifest)?;
    let request = &recorded.manifest.request;
    let (database, is_partial) = facts_of(&arguments.directory, &trace, request, finding)?;
    let doubt = "not all calls of the run were recorded: what is absent may have been done";
    let of = Asking {
        doubt: is_partial.then(|| doubt.into()),
        ..Asking::of(About::CrashState)
    };
    answer(arguments, &programs, database, &of, interrupt)
}

/// Asks a finding of a live sweep.
fn of_live_run(
    arguments: &RulesArgs,
    manifest: &LiveManifest,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let programs = programs(arguments, About::LiveRun)?;
    let (directory, number) = (&arguments.directory, arguments.number);
    let Some(path) = facts_of_live_run(directory, manifest, number, interrupt)? else {
        return Ok(Outcome::Incomplete);
    };
    let database = Database::open(&path, facts_version(About::LiveRun))?;
    let of = Asking::of(About::LiveRun);
    answer(arguments, &programs, database, &of, interrupt)
}

/// Asks a finding of a file system.
fn of_file_system(
    arguments: &RulesArgs,
    fs: &Command,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let directory = &arguments.directory;
    if !directory.join(MANIFEST).is_file() {
        bail!(
            "{} has no results of `crashpoint inject`, `fs`, `app` or `cluster sweep`",
            directory.display()
        );
    }
    let programs = programs(arguments, About::FileSystem)?;
    let finding = (directory.clone(), arguments.number);
    let Some(path) = facts_of_file_system(finding, fs, interrupt)? else {
        return Ok(Outcome::Incomplete);
    };
    let database = Database::open(&path, facts_version(About::FileSystem))?;
    let of = Asking::of(About::FileSystem);
    answer(arguments, &programs, database, &of, interrupt)
}

/// Asks a database about what it is of. What one specification cannot say keeps no other from what it finds.
fn answer(
    arguments: &RulesArgs,
    programs: &[(Asked, Program)],
    mut database: Database,
    of: &Asking<'_>,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let is_partial = of.about == About::FileSystem && database.count(UNREADABLE)? > 0;
    let mut answers = Answers::new(arguments, is_partial);
    let stop = interrupt.clone();
    database.stop_when(move || stop.requested())?;
    if arguments.facts {
        answers.list(&database, of.about)?;
    }
    refuse_long_files(programs, &database, of.about)?;
    if is_partial {
        say("the file system would not show everything of this state: what is absent may be there");
    }
    if let Some(doubt) = &of.doubt {
        say(doubt);
    }
    let answered = answers.answer_all(programs, of.run, &mut database);
    io::stdout().lock().write_all(answers.text.as_bytes())?;
    let outcome = match answers.outcome() {
        Outcome::Findings if of.doubt.is_some() => Outcome::Incomplete,
        outcome => outcome,
    };
    match answered {
        Err(error) if is_interrupted(&error) => {
            say("interrupted: not all rules were evaluated");
            Ok(outcome.or_incomplete())
        }
        Err(error) if outcome == Outcome::Findings => {
            say(&format!("{error:#}"));
            Ok(outcome)
        }
        other => other.map(|()| outcome),
    }
}

/// Refuses rules that may ask for the lines of a file of which there are none, since it is too large, or
/// for what a file of a file system holds.
fn refuse_long_files(
    programs: &[(Asked, Program)],
    database: &Database,
    about: About,
) -> anyhow::Result<()> {
    // Elsewhere these are names that rules may have for themselves.
    if ![About::CrashState, About::FileSystem].contains(&about) {
        return Ok(());
    }
    let asking = programs.iter().map(|(_, program)| program);
    let of_files = ["line", "content"];
    for program in asking.filter(|program| of_files.iter().any(|name| program.mentions(name))) {
        let (entries, _) = database.facts(program, "entry", i64::MAX as u64)?;
        for entry in entries {
            let [
                Value::Text(node),
                Value::Text(path),
                _,
                Value::Integer(size),
                _,
            ] = &entry.values[..]
            else {
                bail!("{entry} is no entry");
            };
            let file = (node.as_str(), path.as_str(), size.unsigned_abs());
            rows::are_lines_told(once(program), false, file).map_err(|why| anyhow!(why))?;
            if about == About::FileSystem {
                rows::is_content_told(once(program), false, file).map_err(|why| anyhow!(why))?;
            }
        }
    }
    Ok(())
}

fn is_interrupted(error: &anyhow::Error) -> bool {
    let of_facts = match error.downcast_ref() {
        Some(injector::Error::Facts(error)) => Some(error),
        _ => error.downcast_ref(),
    };
    matches!(of_facts, Some(datalog::Error::Interrupted))
}

fn programs(arguments: &RulesArgs, about: About) -> anyhow::Result<Vec<(Asked, Program)>> {
    let mut all = Vec::new();
    if let Some(text) = &arguments.rules {
        if text.trim().is_empty() {
            bail!("RULES is empty: ask for something, such as 'all(K) :- acknowledged(key: K).'");
        }
        all.push(Asked {
            specification: Specification {
                name: String::new(),
                text: text.clone(),
            },
            called: "RULES".into(),
        });
    }
    for path in &arguments.spec {
        let read = Specification::read(path);
        all.push(Asked {
            specification: read.with_context(|| format!("read {}", path.display()))?,
            called: path.display().to_string(),
        });
    }
    for (place, asked) in all.iter().enumerate() {
        let name = &asked.specification.name;
        if all[..place]
            .iter()
            .any(|other| other.specification.name.eq_ignore_ascii_case(name))
        {
            bail!("two of the specifications are called {name}: their tables would be the same");
        }
    }
    let programs = all.into_iter().map(|asked| {
        let program = asked.specification.program(&asked.called, about);
        Ok((asked, program.map_err(|problem| anyhow!("{problem}"))?))
    });
    programs.collect()
}

/// What is printed, and what it comes to.
struct Answers {
    most: u64,
    format: OutputFormat,
    text: String,
    /// Whether the file system would not show everything: what is absent may be there.
    is_partial: bool,
    violations: u64,
    /// How many may be there only since something was not shown.
    doubtful: u64,
    /// How many violations had nothing to look at.
    unlooked: u64,
}

impl Answers {
    fn new(arguments: &RulesArgs, is_partial: bool) -> Self {
        Self {
            most: arguments.most,
            format: arguments.format,
            text: String::new(),
            is_partial,
            violations: 0,
            doubtful: 0,
            unlooked: 0,
        }
    }

    /// The relations that there are facts of.
    fn list(&mut self, database: &Database, about: About) -> anyhow::Result<()> {
        for known in FACTS.iter().filter(|known| known.is_of(about)) {
            let relation = known.relation;
            let count = database.count(relation.name)?;
            let columns: Vec<_> = relation.columns.iter().map(|(name, _)| *name).collect();
            self.text += &match self.format {
                OutputFormat::Json => json!({
                    "type": "relation",
                    "relation": relation.name,
                    "columns": columns,
                    "facts": count,
                })
                .to_string(),
                OutputFormat::Text => {
                    format!("{count:8}  {}({})", relation.name, columns.join(", "))
                }
            };
            self.text.push('\n');
        }
        Ok(())
    }

    /// What all rules came to.
    fn answer_all(
        &mut self,
        programs: &[(Asked, Program)],
        facts: Option<&RunFacts<'_>>,
        database: &mut Database,
    ) -> anyhow::Result<()> {
        let mut answered = Ok(());
        for one in programs {
            match self.answer_one(one, facts, database) {
                Err(error) if is_interrupted(&error) => return Err(error),
                one => answered = answered.and(one),
            }
        }
        answered
    }

    /// What these rules came to.
    fn answer_one(
        &mut self,
        (asked, program): &(Asked, Program),
        facts: Option<&RunFacts<'_>>,
        database: &mut Database,
    ) -> anyhow::Result<()> {
        if let Some(facts) = facts {
            facts.complete(database, program)?;
        }
        database
            .evaluate(program)
            .with_context(|| format!("evaluate {}", asked.called))?;
        self.answer(database, program, &asked.specification.name)
    }

    /// What rules came to: violations, and of rules of the command line what no other rule is for.
    fn answer(&mut self, database: &Database, program: &Program, name: &str) -> anyhow::Result<()> {
        let answers = program.answers();
        for relation in program.relations() {
            let is_answer = name.is_empty() && answers.contains(&relation.name.as_str());
            if relation.is_violation() || is_answer {
                self.tell(database, program, relation, name)?;
            }
        }
        for unseen in database.unseen(program)? {
            self.tell_unseen(&unseen);
        }
        Ok(())
    }

    /// The facts of a relation, with their derivations if they are violations.
    fn tell(
        &mut self,
        database: &Database,
        program: &Program,
        relation: &Relation,
        name: &str,
    ) -> anyhow::Result<()> {
        let (facts, count) = database.facts(program, &relation.name, self.most)?;
        let is_doubtful = self.is_partial
            && relation.is_violation()
            && misled_by_unreadable(program).contains(&*relation.name);
        let doubtful = if is_doubtful { DOUBTFUL } else { "" };
        for fact in &facts {
            let derivation = database.derivation(program, fact)?;
            match self.format {
                OutputFormat::Json => {
                    self.as_json((relation, fact), name, &derivation, is_doubtful);
                }
                OutputFormat::Text if relation.is_violation() => {
                    self.text += &format!("violation {fact}{doubtful}\n{derivation}\n");
                }
                OutputFormat::Text => self.text += &format!("{fact}\n"),
            }
        }
        if is_doubtful {
            self.doubtful += count;
        } else if relation.is_violation() {
            self.violations += count;
        }
        self.conclude(&relation.name, count, facts.len() as u64);
        Ok(())
    }

    /// A violation that had nothing to look at.
    fn tell_unseen(&mut self, unseen: &Unseen) {
        self.unlooked += 1;
        let (relation, lacks) = (&unseen.relation, &unseen.missing);
        self.text += &match self.format {
            OutputFormat::Json => {
                json!({"type": "unlooked", "relation": relation, "lacks": lacks}).to_string()
            }
            OutputFormat::Text => format!(
                "{relation} never had a fact to look at: there is no {}",
                lacks.join(", and no ")
            ),
        };
        self.text.push('\n');
    }

    fn outcome(&self) -> Outcome {
        match (self.violations, self.doubtful + self.unlooked) {
            (1.., _) => Outcome::Findings,
            (0, 1..) => Outcome::Incomplete,
            (0, 0) => Outcome::Clean,
        }
    }

    fn as_json(
        &mut self,
        (relation, fact): (&Relation, &Fact),
        specification: &str,
        derivation: &Derivation,
        is_doubtful: bool,
    ) {
        let columns = relation.columns.iter().zip(&fact.values);
        let values: serde_json::Map<_, _> = columns
            .map(|(column, value)| {
                let value = match value {
                    Value::Integer(number) => json!(number),
                    Value::Text(text) => json!(text),
                };
                (column.name.clone(), value)
            })
            .collect();
        let mut line = json!({
            "type": "fact",
            "specification": specification,
            "relation": relation.name,
            "violation": relation.is_violation(),
            "values": values,
            "since_ns": fact.since_ns,
            "derivation": derivation.to_string(),
        });
        if is_doubtful {
            line["doubtful"] = true.into();
        }
        self.text += &format!("{line}\n");
    }

    fn conclude(&mut self, relation: &str, count: u64, shown: u64) {
        if self.format == OutputFormat::Json {
            let line = json!({"type": "count", "relation": relation, "facts": count});
            self.text += &format!("{line}\n");
            return;
        }
        let of = if shown < count {
            format!(", of which the first {shown} are shown")
        } else {
            String::new()
        };
        let facts = brief::counted(count, "fact");
        self.text += &format!("{relation}: {facts}{of}\n");
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn rules_that_ask_for_what_a_large_file_holds_are_refused() {
        let known = specification::facts(About::FileSystem);
        let mut database = Database::in_memory(&known).expect("a database");
        let large = rows::entry("ext4", "large", ("file", 100 << 20, String::new()));
        database.add("entry", [large]).expect("added");
        let refused = |text: &str| {
            let specification = Specification {
                name: "s".into(),
                text: text.into(),
            };
            let program = specification.program("s.dl", About::FileSystem);
            let program = program.unwrap_or_else(|problem| panic!("{problem}"));
            let asked = Asked {
                specification,
                called: "s.dl".into(),
            };
            let refused = refuse_long_files(&[(asked, program)], &database, About::FileSystem);
            refused.err().map(|error| error.to_string())
        };
        let why = refused("x(P, H) :- content(path: P, hash: H).").expect("refused");
        assert!(why.contains("large of ext4 holds"), "{why}");
        assert_eq!(refused("x(H) :- content(path: \"small\", hash: H)."), None);
    }

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        arguments: RulesArgs,
    }

    /// What files with these texts come to about something of which there is a node, which does not show all
    /// that it has if it is a file system; and if it is not certain.
    fn answered(about: About, texts: &[&str]) -> [anyhow::Result<Outcome>; 2] {
        let folder = tempfile::tempdir().expect("a directory");
        let mut words = vec![
            "rules".into(),
            "results".into(),
            "1".into(),
            "--spec".into(),
        ];
        for (place, text) in texts.iter().enumerate() {
            let path = folder.path().join(format!("s{place}.dl"));
            std::fs::write(&path, text).expect("written");
            words.push(path.into_os_string());
        }
        let arguments = Words::try_parse_from(words).expect("right").arguments;
        let doubts = [None, Some("not all is known")];
        doubts.map(|doubt| {
            let programs = programs(&arguments, about)?;
            let mut database = Database::in_memory(&specification::facts(about))?;
            database.add("node", [vec!["a".into()]])?;
            if about == About::FileSystem {
                let row = ["a", "d", "list", "EIO"].map(Value::from);
                database.add(UNREADABLE, [row.to_vec()])?;
            }
            let of = Asking {
                doubt: doubt.map(str::to_owned),
                ..Asking::of(about)
            };
            answer(&arguments, &programs, database, &of, &Interrupt::default())
        })
    }

    #[track_caller]
    fn assert_outcome(about: About, texts: &[&str], certain: Outcome, doubtful: Outcome) {
        let outcomes = answered(about, texts);
        let outcomes = outcomes.map(|outcome| outcome.unwrap_or_else(|error| panic!("{error:#}")));
        assert_eq!(outcomes, [certain, doubtful]);
    }

    const NODE: &str = "violation v(N) :- node(N).";
    const TOO_LARGE: &str = "violation large(N) :- node(N), X = 1, X + 9223372036854775807 > 0.";

    #[test]
    fn a_violation_that_is_not_certain_is_no_finding() {
        let none = "violation v(N) :- node(N), N = \"a\", N ~ \"b\".";
        for about in [About::Run, About::CrashState] {
            assert_outcome(about, &[NODE], Outcome::Findings, Outcome::Incomplete);
            assert_outcome(about, &[none], Outcome::Clean, Outcome::Clean);
        }
    }

    #[test]
    fn what_may_be_wrong_since_a_file_system_did_not_show_something_is_no_finding() {
        let of = About::FileSystem;
        let absent = "violation absent(N) :- node(N), !entry(node: N).";
        let excused = "violation e(N) :- node(N), !entry(node: N), !unreadable(path: \"x\").";
        assert_outcome(of, &[absent], Outcome::Incomplete, Outcome::Incomplete);
        for certain in [&[NODE][..], &[absent, NODE], &[excused]] {
            assert_outcome(of, certain, Outcome::Findings, Outcome::Incomplete);
        }
    }

    #[test]
    fn each_violation_says_whether_it_is_certain() {
        let rules = "violation absent(N) :- node(N), !entry(node: N). violation v(N) :- node(N).";
        let about = About::FileSystem;
        let told = |format: &str, is_partial| {
            let words = ["rules", "results", "1", rules, "--format", format];
            let arguments = Words::try_parse_from(words).expect("right").arguments;
            let programs = programs(&arguments, about).expect("right");
            let facts = specification::facts(about);
            let mut database = Database::in_memory(&facts).expect("a database");
            database.add("node", [vec!["a".into()]]).expect("added");
            let mut answers = Answers::new(&arguments, is_partial);
            let answered = answers.answer_all(&programs, None, &mut database);
            answered.expect("answered");
            answers.text
        };
        for (format, doubt) in [("text", "(not certain)"), ("json", "\"doubtful\":true")] {
            let text = told(format, true);
            let mut doubtful = text.lines().filter(|line| line.contains(doubt));
            let one = doubtful.next().expect("one that is not certain");
            assert!(one.contains("absent"), "{text}");
            assert_eq!(doubtful.next(), None, "{text}");
            assert!(!told(format, false).contains(doubt));
        }
    }

    #[test]
    fn relations_of_a_crash_are_names_like_others_of_a_run() {
        let own = "line(N, L) :- node(N), L = \"x\". content(N) :- node(N).\n\
                   violation v(N) :- line(N, L), L ~ \"x\", content(N).";
        for about in [About::Run, About::LiveRun] {
            assert_outcome(about, &[own], Outcome::Findings, Outcome::Incomplete);
        }
    }

    #[test]
    fn what_one_specification_cannot_say_keeps_no_other_from_what_it_finds() {
        for texts in [[TOO_LARGE, NODE], [NODE, TOO_LARGE]] {
            let [certain, _] = answered(About::Run, &texts);
            assert_eq!(certain.expect("a violation"), Outcome::Findings);
        }
        let [certain, _] = answered(About::Run, &[TOO_LARGE]);
        let error = certain.expect_err("nothing is said");
        assert!(format!("{error:#}").contains("64 bits"), "{error:#}");
    }
}
