//! What rules may ask for, known before they are evaluated.

use datalog::{InputRelation, Kind, Program, Source};

const INPUTS: &[InputRelation] = &[InputRelation {
    name: "line",
    columns: &[("path", Kind::Text), ("line", Kind::Text)],
    time: None,
    is_watched: false,
    beside: None,
    about: "a line of a file",
}];

#[test]
fn a_value_is_not_asked_for_if_a_constant_or_a_condition_says_so() {
    for (body, may_ask) in [
        ("line(\"log\", X)", true),
        ("line(\"other\", X)", false),
        ("line(P, X)", true),
        ("line(_, X)", true),
        ("line(line: X)", true),
        ("line(P, X), P = \"log\"", true),
        ("line(P, X), \"other\" = P", false),
        ("line(P, X), P != \"log\"", false),
        ("line(P, X), P ~ \"^l\"", true),
        ("line(P, X), P ~ \"^o\"", false),
        ("line(P, X), P !~ \"^l\"", false),
        // What has no value makes the body not hold.
        (
            "line(P, X), N = number(capture(P, \"([0-9]+)\")), N > 1",
            false,
        ),
        ("line(P, X), N = capture(P, \"(.)g$\"), N = \"o\"", true),
        ("line(P, X), N = capture(P, \"(.)g$\"), N = \"a\"", false),
        // What the other is, is not known.
        ("line(P, X), line(\"other\", Q), P = Q", true),
        ("line(\"other\", X), !line(\"log\", X)", true),
        ("line(\"other\", X), !line(\"third\", X)", false),
        // What the rules list by name.
        ("line(P, X), named(P)", false),
        ("line(P, X), both(P)", true),
        ("line(P, X), of(\"a\", P)", true),
        ("line(P, X), of(\"b\", P)", false),
        ("line(P, X), made(P)", false),
        ("line(\"other\", X), named(P), !line(P, X)", false),
        ("line(\"other\", X), both(P), !line(P, X)", true),
    ] {
        let text = format!(
            "violation v(X) :- {body}. named(\"other\"). both(\"log\"). both(\"other\"). \
             of(\"a\", \"log\"). of(\"b\", \"other\"). made(P) :- P = \"other\"."
        );
        let program = Program::new(&Source::new("a.dl", &*text), INPUTS, &Source::default(), "");
        let program = program.unwrap_or_else(|problem| panic!("{problem}"));
        assert_eq!(
            program.may_ask("line", "path", &"log".into()),
            may_ask,
            "{body}"
        );
        assert!(!program.may_ask("entry", "path", &"log".into()), "{body}");
    }
}
