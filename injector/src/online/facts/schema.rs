//! Which facts there are of a run: the table of docs/specifications.md.

use datalog::{InputRelation, Kind, Source};

/// The version of these relations; a database of another one is made anew.
pub const FACTS_VERSION: u32 = 1;

/// The short forms that every specification has.
pub(super) fn given() -> Source {
    Source::new("the short forms", include_str!("given.dl"))
}

const INTEGER: Kind = Kind::Integer;
const TEXT: Kind = Kind::Text;

/// A relation of which it says nothing that it is empty.
const fn seen(
    name: &'static str,
    columns: &'static [(&'static str, Kind)],
    time: Option<&'static str>,
    about: &'static str,
) -> InputRelation {
    InputRelation {
        name,
        columns,
        time,
        is_watched: false,
        about,
    }
}

/// One that is empty if what it is of did not happen: every run is watched for it.
const fn watched(
    name: &'static str,
    columns: &'static [(&'static str, Kind)],
    time: Option<&'static str>,
    about: &'static str,
) -> InputRelation {
    InputRelation {
        name,
        columns,
        time,
        is_watched: true,
        about,
    }
}

/// When it happened.
const TIME: Option<&str> = Some("time");

/// An operation that was answered otherwise than with `ok`.
const NOT_ACKNOWLEDGED: &[(&str, Kind)] = &[
    ("op", INTEGER),
    ("client", TEXT),
    ("process", INTEGER),
    ("f", TEXT),
    ("key", TEXT),
    ("value", TEXT),
    ("error", TEXT),
    ("called", INTEGER),
    ("time", INTEGER),
];

/// The facts of a run. Times are nanoseconds from the start of the clients on.
pub const FACTS: &[InputRelation] = &[
    seen("node", &[("node", TEXT)], None, "a node of the cluster"),
    seen(
        "client",
        &[("client", TEXT)],
        None,
        "a client of the cluster",
    ),
    seen(
        "called",
        &[
            ("op", INTEGER),
            ("client", TEXT),
            ("process", INTEGER),
            ("f", TEXT),
            ("key", TEXT),
            ("value", TEXT),
            ("time", INTEGER),
        ],
        TIME,
        "a client began an operation. `op` numbers operations in the order of their calls; `process` \
         does one after the other; `f`, `key` and `value` are those of the history",
    ),
    seen(
        "acknowledged",
        &[
            ("op", INTEGER),
            ("client", TEXT),
            ("process", INTEGER),
            ("f", TEXT),
            ("key", TEXT),
            ("value", TEXT),
            ("result", TEXT),
            ("called", INTEGER),
            ("time", INTEGER),
        ],
        TIME,
        "it was answered `ok` with a result; it took effect between `called` and `time`",
    ),
    watched(
        "refused",
        NOT_ACKNOWLEDGED,
        TIME,
        "it was answered `fail`: it took no effect",
    ),
    watched(
        "unknown",
        NOT_ACKNOWLEDGED,
        TIME,
        "it was answered `info`, or not at all (then `time` is the end of the run): it may take \
         effect at any time after `called`, or never",
    ),
    seen(
        "printed",
        &[("number", INTEGER), ("line", TEXT)],
        None,
        "a client printed a line that is of no history; lines of all clients are numbered in order",
    ),
    seen(
        "fault",
        &[
            ("fault", INTEGER),
            ("kind", TEXT),
            ("words", TEXT),
            ("time", INTEGER),
        ],
        TIME,
        "a fault of the plan was in place: its number, its `fault` in the plan, and what happened",
    ),
    seen(
        "fault_on",
        &[("fault", INTEGER), ("node", TEXT), ("time", INTEGER)],
        TIME,
        "it was on this node",
    ),
    seen(
        "cut",
        &[
            ("fault", INTEGER),
            ("side", INTEGER),
            ("who", TEXT),
            ("time", INTEGER),
        ],
        TIME,
        "a node or a client is on side 1 of a partition or a worse link, that of `on`, or on side 2",
    ),
    seen(
        "fault_ended",
        &[("fault", INTEGER), ("time", INTEGER)],
        TIME,
        "a fault has ended, and that was verified",
    ),
    watched(
        "fault_missed",
        &[("fault", INTEGER), ("why", TEXT)],
        None,
        "a fault of the plan never happened, or hit nothing",
    ),
    seen(
        "call",
        &[("node", TEXT), ("words", TEXT), ("time", INTEGER)],
        TIME,
        "a node made a system call that the plan waited for, or that a fault hit first, as the \
         timeline tells it",
    ),
    seen(
        "call_hit",
        &[
            ("node", TEXT),
            ("fault", INTEGER),
            ("call", TEXT),
            ("path", TEXT),
            ("comes", TEXT),
            ("time", INTEGER),
        ],
        TIME,
        "the first call on this node that a fault hit, its file, and what came of it: `fails with \
         EIO`, `is held`, `takes 0.5 s more`, `100 of 4096 bytes`",
    ),
    seen(
        "role",
        &[
            ("node", TEXT),
            ("role", TEXT),
            ("term", INTEGER),
            ("more", TEXT),
            ("time", INTEGER),
        ],
        TIME,
        "the probe said that a node has a role that it did not have before; `term` is 0 if it said \
         none",
    ),
    seen(
        "started",
        &[("node", TEXT), ("time", INTEGER)],
        TIME,
        "a node was ready: at 0 each, and each time that it was started again",
    ),
    watched(
        "not_ready",
        &[("node", TEXT), ("why", TEXT), ("time", INTEGER)],
        TIME,
        "a node that was started again did not become ready",
    ),
    watched(
        "ended",
        &[("node", TEXT), ("how", TEXT), ("time", INTEGER)],
        TIME,
        "a node ended by itself",
    ),
    seen(
        "client_ended",
        &[("client", TEXT), ("how", TEXT), ("time", INTEGER)],
        TIME,
        "a client ended",
    ),
    watched(
        "probe_failed",
        &[("why", TEXT), ("time", INTEGER)],
        TIME,
        "the probe gave no answer",
    ),
    seen(
        "healed",
        &[("time", INTEGER)],
        TIME,
        "no fault was in place any more, and all nodes were ready",
    ),
    seen(
        "progress",
        &[("time", INTEGER)],
        TIME,
        "an operation was acknowledged after that",
    ),
    seen(
        "over",
        &[("time", INTEGER)],
        TIME,
        "the clients had ended, and the check had looked",
    ),
    watched(
        "found",
        &[("words", TEXT), ("time", INTEGER)],
        TIME,
        "the check, or what clients saw, says that this is broken",
    ),
    seen(
        "logged",
        &[
            ("node", TEXT),
            ("number", INTEGER),
            ("line", TEXT),
            ("time", INTEGER),
        ],
        TIME,
        "a node logged a line, of which this is the number; what it logged before the clients were \
         started has the time 0. It is there if a rule asks for it",
    ),
];
