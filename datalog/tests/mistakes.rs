//! Rules that are wrong are refused, with the place and what would be right.

use datalog::{InputRelation, Kind, Program, Source};

const INPUTS: &[InputRelation] = &[InputRelation {
    name: "acked",
    columns: &[("key", Kind::Text), ("time", Kind::Integer)],
    time: Some("time"),
    is_watched: false,
    beside: None,
    about: "an acknowledgement",
}];

fn refused(text: &str) -> String {
    refused_with("", text)
}

/// The same with short forms.
fn refused_with(given: &str, text: &str) -> String {
    let given = Source::new("the short forms", given);
    let program = Program::new(&Source::new("a.dl", text), INPUTS, &given, "");
    program
        .err()
        .map_or_else(|| "right".into(), |problem| problem.to_string())
}

/// What stands before and after the colon after the position.
fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(refused(text), *expected, "{text}");
    }
}

#[test]
fn variables_that_nothing_binds() {
    check(&[
        (
            "a(K) :- acked(K, _).\nb(K, X) :- acked(K, _).",
            "a.dl:2:6: in the rule of b: nothing binds X: it stands in no atom of the body, and \
             equals nothing that is known",
        ),
        (
            "a(K) :- acked(K, _), !acked(O, _).",
            "a.dl:1:23: in the rule of a: O is bound by nothing but what must be absent: bind it \
             before, or write `_` for anything",
        ),
        (
            "a(K) :- acked(K, T), T > X.",
            "a.dl:1:26: in the rule of a: nothing binds X: it stands in no atom of the body, and \
             equals nothing that is known",
        ),
        (
            "a(count(X)) :- acked(_, _).",
            "a.dl:1:3: in the rule of a: nothing binds X: it stands in no atom of the body, and \
             equals nothing that is known",
        ),
        ("a(X) :- acked(_, T), X = Y + 1, Y = T.", "right"),
    ]);
}

#[test]
fn names_that_nobody_knows() {
    check(&[
        (
            "a(K) :- ackd(K, _).",
            "a.dl:1:9: in the rule of a: nothing is known of ackd: it has no rule, and is no fact; \
             did you mean acked?",
        ),
        (
            "a(K) :- acked(ky: K).",
            "a.dl:1:15: in the rule of a: acked has no column ky; it is acked(key, time)",
        ),
        (
            "a(K) :- acked(K).",
            "a.dl:1:9: in the rule of a: acked has 2 columns, and not 1; it is acked(key, time). \
             Columns may be left out where they are named, as in acked(key: X)",
        ),
        (
            "a(K) :- acked(K, time: T).",
            "a.dl:1:18: in the rule of a: an atom names all of its columns (`key: K`), or none",
        ),
        (
            "a(K) :- acked(K, _).\na(K, T) :- acked(K, T).",
            "a.dl:2:1: in the rule of a: a has 1 column in an earlier rule, and 2 columns here",
        ),
        (
            "acked(K, 1) :- acked(K, _).",
            "a.dl:1:1: in the rule of acked: acked has the facts of the run, and no rules: give \
             yours another name",
        ),
        (
            "lostKey(K) :- acked(K, _).\nlostkey(K) :- acked(K, _).",
            "a.dl:2:1: in the rule of lostkey: lostkey and lostKey differ only in capital letters, \
             which the database does not tell apart",
        ),
    ]);
}

#[test]
fn what_short_forms_cannot_go_by_is_a_mistake_of_the_user() {
    let given = "short(K) :- acked(K, _), word(K). word(\"a\").";
    let misfit = "a.dl:2:1: in the rule of word: the short form short asks for a word with other \
                  columns: give yours another name";
    for (own, expected) in [
        (
            "shorT(K) :- acked(K, _).",
            "a.dl:2:1: in the rule of shorT: shorT and the short form short differ only in capital \
             letters, which the database does not tell apart",
        ),
        ("word(K, T) :- acked(K, T).", misfit),
        ("word(1).", misfit),
        ("word(K) :- acked(K, _).", "right"),
        (
            "short(T, K) :- acked(K, T).",
            "a.dl:1:9: in the rule of a: short has 2 columns, and not 1; it \
         is short(t, k). Columns may be left out where they are named, as in short(t: X)",
        ),
    ] {
        let text = format!("a(K) :- short(K).\n{own}");
        assert_eq!(refused_with(given, &text), expected, "{own}");
        assert_eq!(refused_with(given, own), "right", "{own}");
    }
}

#[test]
fn what_cannot_be_ordered() {
    check(&[
        (
            "a(K) :- acked(K, _), !b(K).\nb(K) :- acked(K, _), !a(K).",
            "a.dl:1:23: in the rule of a: a needs the absence of b, which depends on a: whether b \
             holds cannot be known before a is. Define one of them without the other",
        ),
        (
            "a(count(K)) :- acked(K, _), a(_).",
            "a.dl:1:29: in the rule of a: a is an aggregate over a, which depends on a: whether a \
             holds cannot be known before a is. Define one of them without the other",
        ),
    ]);
}

#[test]
fn numbers_where_texts_are() {
    check(&[
        (
            "a(K) :- acked(K, K).",
            "a.dl:1:9: in the rule of a: K is a text elsewhere in this rule, and a number here",
        ),
        (
            "a(K) :- acked(7, K).",
            "a.dl:1:9: in the rule of a: column key of acked is a text, and 7 is not",
        ),
        (
            "a(K) :- acked(K, _), K > 3.",
            "a.dl:1:22: in the rule of a: `>` compares a text with a number",
        ),
        (
            "a(K) :- acked(K, _).\na(T) :- acked(_, T).",
            "a.dl:2:3: in the rule of a: column k of a is a text in another rule, and a number here",
        ),
        (
            "a(K + 1) :- acked(K, _).",
            "a.dl:1:3: in the rule of a: `+` is for numbers",
        ),
        (
            "a(T) :- acked(_, T), T ~ \"x\".",
            "a.dl:1:22: in the rule of a: T is a number elsewhere in this rule, and a text here",
        ),
        (
            "a(sum(K)) :- acked(K, _).",
            "a.dl:1:3: in the rule of a: K is a text elsewhere in this rule, and a number here",
        ),
    ]);
}

#[test]
fn what_is_no_rule() {
    check(&[
        (
            "a(K) :- acked(K, _)",
            "a.dl:1:20: in the rule of a: `.` at the end of the rule is missing before the end of \
             the text",
        ),
        (
            "a(K) :- acked(k, _).",
            "a.dl:1:15: in the rule of a: `k` is no value: a variable begins with a capital letter, \
             a text stands in quotes (\"k\")",
        ),
        ("% a comment\n", "a.dl:1:1: a comment begins with `#`"),
        (
            "violation(K) :- acked(K, _).",
            "a.dl:1:1: `violation` is no relation: name what is violated, as in \
             `violation lost(K) :- …`",
        ),
        (
            "Lost(K) :- acked(K, _).",
            "a.dl:1:1: the name of a relation begins with a small letter, not as `Lost` does",
        ),
        (
            "a(K) :- not acked(K, _).",
            "a.dl:1:9: in the rule of a: `not` has no meaning here: absence is `!relation(…)`",
        ),
        (
            "a(K) :- acked(K, T + 1).",
            "a.dl:1:20: in the rule of a: an atom has variables, numbers, texts and `_`: what is \
             calculated stands in a condition of its own, as in `X = N + 1`",
        ),
        (
            "a(_) :- acked(_, _).",
            "a.dl:1:3: in the rule of a: `_` is nothing that a head could have: name it",
        ),
        (
            "a(\"k) .",
            "a.dl:1:3: this text has no closing quote in its line",
        ),
        (
            "a(1.5) .",
            "a.dl:1:3: numbers are whole, or times such as 1.5s",
        ),
        (
            "a(5h) .",
            "a.dl:1:3: `h` is no unit of time: ns, us, ms, s, min",
        ),
        (
            "a(99999999999s) .",
            "a.dl:1:3: this number does not fit into 64 bits",
        ),
        (
            "a(K) :- acked(K, _), K ~ \"(\".",
            "a.dl:1:26: in the rule of a: \"(\" is no regular expression: error: unclosed group",
        ),
        (
            "a(capture(K, \"x\")) :- acked(K, _).",
            "a.dl:1:14: in the rule of a: this regular expression has no group in parentheses to \
             capture",
        ),
    ]);
}

#[test]
fn no_text_makes_the_parser_fall_over() {
    let deep = format!("a({}1{}) .", "(".repeat(100_000), ")".repeat(100_000));
    assert!(refused(&deep).contains("too many parentheses"));
    let long = format!("a(T{}) :- acked(_, T).", " + 1".repeat(100_000));
    let too_long = "this is calculated from more than 200 parts";
    assert!(refused(&long).starts_with(&format!("a.dl:1:803: in the rule of a: {too_long}")));
    let double = |place| format!("\nB{} = B{place} + B{place}", place + 1);
    let doubled: Vec<_> = (0..40).map(double).collect();
    let doubled = format!("a(B40) :- acked(_, B0),{}.", doubled.join(","));
    assert!(refused(&doubled).starts_with(&format!("a.dl:9:6: in the rule of a: {too_long}")));
    for text in [
        "",
        "a",
        "a(",
        "a(X",
        ":-",
        "a() :-",
        "a() :- !",
        "a(\\",
        "ä(1).",
        "a(-",
        "a(X) :- X",
    ] {
        let _ = refused(text);
    }
}
