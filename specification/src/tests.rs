//! The table of the page about specifications, and what may not be asked of a relation.

use super::*;

/// The row of a relation.
fn row(known: &Known) -> String {
    let Known { relation, .. } = known;
    let columns: Vec<_> = relation.columns.iter().map(|(name, _)| *name).collect();
    let watched = if relation.is_watched { "yes" } else { "" };
    let of = known.of();
    let (name, about) = (relation.name, relation.about);
    format!(
        "| `{name}({})` | {about} | {of} | {watched} |\n",
        columns.join(", ")
    )
}

#[test]
fn the_page_lists_the_facts_that_there_are() {
    let page = include_str!("../../docs/specifications.md");
    let head = "| fact | what it says | of | watched |\n|---|---|---|---|\n";
    let table = FACTS.iter().map(row).collect::<String>();
    let table = head.to_owned() + &table;
    assert!(
        page.contains(&table),
        "put this into docs/specifications.md:\n{table}"
    );
}

fn problem(text: &str, about: About) -> String {
    let specification = Specification {
        name: "s".into(),
        text: text.into(),
    };
    let program = specification.program("s.dl", about);
    program.map_or_else(|problem| problem.to_string(), |_| String::new())
}

#[test]
fn what_there_are_no_facts_of_cannot_be_asked_and_its_name_is_free() {
    let lost = "violation lost(K) :- acked(K), !served(K).";
    assert_eq!(problem(lost, About::Run), "");
    assert!(problem(lost, About::CrashState).contains("nothing is known of acked"));
    let named = "violation named(L) :- printed(_, L), !entry(path: L).";
    assert_eq!(problem(named, About::CrashState), "");
    assert_eq!(
        problem(named, About::Run),
        "s.dl:1:39: in the rule of named: nothing is known of entry of a run with faults: there are \
         such facts of crash states only"
    );
    let own = "entry(L) :- printed(_, L). violation two(L) :- entry(L), !reads(L).";
    assert_eq!(problem(own, About::Run), "");
    let healed = "violation x(T) :- healed(T).";
    assert!(problem(healed, About::CrashState).ends_with("such facts of runs only"));
}
