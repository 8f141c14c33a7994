//! Which facts there are of runs and of crash states: the table of docs/specifications.md.

use std::collections::BTreeSet;

use datalog::{InputRelation, Kind, Program, Source};

use About::{CrashState, FileSystem, LiveRun, Run};

/// What rules are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// A run of a cluster, with faults of a plan.
    Run,
    /// A run of a live sweep: the power fails, and the cluster goes on.
    LiveRun,
    /// What a crash left of a program or a cluster.
    CrashState,
    /// What a crash left of a file system.
    FileSystem,
}

impl About {
    /// The others.
    pub fn others(self) -> impl Iterator<Item = Self> {
        [Run, LiveRun, CrashState, FileSystem]
            .into_iter()
            .filter(move |other| *other != self)
    }

    /// What it is called.
    pub fn words(self) -> &'static str {
        match self {
            Run => "a run with faults",
            LiveRun => "a live run",
            CrashState => "a crash state of a program or a cluster",
            FileSystem => "a crash state of a file system",
        }
    }
}

/// A relation, and where there are facts of it.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// The relation.
    pub relation: InputRelation,
    /// Of what.
    pub about: &'static [About],
}

impl Known {
    /// Whether it is known of that whether there are facts.
    pub fn is_of(&self, about: About) -> bool {
        self.about.contains(&about)
    }

    /// The same in words.
    pub fn of(&self) -> &'static str {
        let of_states = (self.is_of(CrashState), self.is_of(FileSystem));
        match (self.is_of(Run), self.is_of(LiveRun), of_states) {
            (true, _, (true, true)) => "all",
            (true, _, (true, false)) => "runs, and crash states of programs",
            (true, true, _) => "runs",
            (true, false, _) => "runs of inject",
            (false, true, _) => "live runs",
            (false, false, (true, true)) => "crash states",
            (false, false, (true, false)) => "crash states of programs",
            (false, false, _) => "crash states of file systems",
        }
    }
}

/// The relations that rules can name.
pub fn facts(about: About) -> Vec<InputRelation> {
    let known = FACTS.iter().filter(|known| known.is_of(about));
    known.map(|known| known.relation).collect()
}

/// The version of these relations: tables of another one may have other columns.
pub fn facts_version(about: About) -> u32 {
    match about {
        // Since 2 `call_hit` says where the call is made, and there are `made` and `cut_off`. Since 3 there are
        // `made_message`, `looked_at` and what was seen then.
        Run => 3,
        LiveRun | CrashState | FileSystem => 1,
    }
}

/// The short forms that every specification has.
pub(crate) fn given(about: About) -> Source {
    let all = include_str!("given.dl");
    let of_runs = include_str!("given_of_runs.dl");
    let text = match about {
        Run | LiveRun => format!("{all}\n{of_runs}"),
        CrashState | FileSystem => all.to_owned(),
    };
    Source::new("the short forms", text)
}

/// The relation that says what a file system would not show.
pub const UNREADABLE: &str = "unreadable";

/// Relations of which facts are missing where a file system would not show something.
const SHOWN: [&str; 5] = ["entry", "content", "line", "xattr", "attributes"];

/// The relations of rules whose facts may be there only since a file system would not show something.
pub fn misled_by_unreadable(program: &Program) -> BTreeSet<&str> {
    program.misled_by_missing(&SHOWN, UNREADABLE)
}

const INTEGER: Kind = Kind::Integer;
const TEXT: Kind = Kind::Text;

/// Any run, whatever had its faults happen.
const RUN: &[About] = &[Run, LiveRun];
/// A run with a plan.
const PLANNED: &[About] = &[Run];
const LIVE: &[About] = &[LiveRun];
/// What a program or a cluster left.
const PROGRAM: &[About] = &[CrashState];
/// What a file system left.
const DISK: &[About] = &[FileSystem];
const STATE: &[About] = &[CrashState, FileSystem];
/// Where somebody says something.
const SPOKEN: &[About] = &[Run, LiveRun, CrashState];
const ALL: &[About] = &[Run, LiveRun, CrashState, FileSystem];

/// A relation of which it says nothing that it is empty.
const fn seen(
    about: &'static [About],
    name: &'static str,
    columns: &'static [(&'static str, Kind)],
    time: Option<&'static str>,
    words: &'static str,
) -> Known {
    let relation = InputRelation {
        name,
        columns,
        time,
        is_watched: false,
        beside: None,
        about: words,
    };
    Known { relation, about }
}

/// One that is empty if what it is of did not happen: it is watched for.
const fn watched(
    about: &'static [About],
    name: &'static str,
    columns: &'static [(&'static str, Kind)],
    time: Option<&'static str>,
    words: &'static str,
) -> Known {
    let Known { relation, .. } = seen(about, name, columns, time, words);
    let relation = InputRelation {
        is_watched: true,
        ..relation
    };
    Known { relation, about }
}

/// One that is empty if no operation came to that: somebody has to have called one.
const fn answered(name: &'static str, words: &'static str) -> Known {
    let Known { relation, about } = watched(RUN, name, NOT_ACKNOWLEDGED, TIME, words);
    let relation = InputRelation {
        beside: Some("called"),
        ..relation
    };
    Known { relation, about }
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

/// An operation on a file.
const FILE_OP: &[(&str, Kind)] = &[
    ("event", INTEGER),
    ("node", TEXT),
    ("op", TEXT),
    ("path", TEXT),
    ("to", TEXT),
    ("file", INTEGER),
    ("offset", INTEGER),
    ("length", INTEGER),
    ("call", TEXT),
    ("time", INTEGER),
];

/// Bytes that went into a connection, or came out of one.
const MESSAGE: &[(&str, Kind)] = &[
    ("event", INTEGER),
    ("node", TEXT),
    ("stream", INTEGER),
    ("first", INTEGER),
    ("after", INTEGER),
    ("time", INTEGER),
];

/// All facts. Times of runs are nanoseconds from the start of the clients on, those of a crash state
/// from the first thing on that was recorded.
pub const FACTS: &[Known] = &[
    seen(
        ALL,
        "node",
        &[("node", TEXT)],
        None,
        "a node of the cluster; of `crashpoint app`, the program, of `crashpoint fs`, the file system, such \
         as `ext4`",
    ),
    seen(
        SPOKEN,
        "client",
        &[("client", TEXT)],
        None,
        "a client of the cluster; of crash states, whoever printed lines",
    ),
    seen(
        RUN,
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
        RUN,
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
    answered("refused", "it was answered `fail`: it took no effect"),
    answered(
        "unknown",
        "it was answered `info`, or not at all (then `time` is the end of the run): it may take \
         effect at any time after `called`, or never",
    ),
    seen(
        SPOKEN,
        "printed",
        &[("number", INTEGER), ("line", TEXT)],
        None,
        "a client printed a line that is of no history; lines of all clients are numbered in order",
    ),
    seen(
        LIVE,
        "printed_at",
        &[("number", INTEGER), ("client", TEXT), ("time", INTEGER)],
        TIME,
        "who printed the line of this number, and when",
    ),
    seen(
        RUN,
        "fault",
        &[
            ("fault", INTEGER),
            ("kind", TEXT),
            ("words", TEXT),
            ("time", INTEGER),
        ],
        TIME,
        "a fault was in place: its number, its `fault` in the plan (of live runs `power-loss`), and what \
         happened",
    ),
    seen(
        RUN,
        "fault_on",
        &[("fault", INTEGER), ("node", TEXT), ("time", INTEGER)],
        TIME,
        "it was on this node",
    ),
    seen(
        PLANNED,
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
        PLANNED,
        "cut_off",
        &[("node", TEXT), ("time", INTEGER)],
        TIME,
        "with [`restores = \"majority\"`](injection.md#a-majority-first): this node is not in the majority, and was \
         cut off from it and from all clients until everything was healed",
    ),
    seen(
        RUN,
        "fault_ended",
        &[("fault", INTEGER), ("time", INTEGER)],
        TIME,
        "a fault has ended, and that was verified",
    ),
    watched(
        PLANNED,
        "fault_missed",
        &[("fault", INTEGER), ("why", TEXT)],
        None,
        "a fault of the plan never happened, or hit nothing",
    ),
    seen(
        PLANNED,
        "call",
        &[("node", TEXT), ("words", TEXT), ("time", INTEGER)],
        TIME,
        "a node made a system call, or a request to its disk, that the plan waited for, or a call that a fault \
         hit first, as the timeline tells it",
    ),
    seen(
        PLANNED,
        "call_hit",
        &[
            ("node", TEXT),
            ("fault", INTEGER),
            ("call", TEXT),
            ("path", TEXT),
            ("comes", TEXT),
            ("site", TEXT),
            ("called_by", TEXT),
            ("time", INTEGER),
        ],
        TIME,
        "the first call on this node that a fault hit, its file, and what came of it: `fails with \
         EIO`, `is held`, `takes 0.5 s more`, `100 of 4096 bytes`, `a bit is flipped`. `site` is the place in \
         the program (the number of its stack), if the fault hits calls of one place only, as those of \
         `exhaustive` do; `called_by` the functions that make it, if they are known. Both may be empty",
    ),
    seen(
        PLANNED,
        "made",
        &[
            ("node", TEXT),
            ("point", TEXT),
            ("call", TEXT),
            ("file", TEXT),
            ("role", TEXT),
            ("site", TEXT),
            ("called_by", TEXT),
            ("times", INTEGER),
        ],
        None,
        "a node made this call on a file of its directory of data so many times: a failure point, with the ID that \
         `--points` prints. Counting begins when the last fault is in place; in a run without faults it begins \
         with the clients (a `heal` does not count as a fault). It ends when no fault is waited for any more, at \
         least 0.3 s after the clients have ended. Calls are counted only by `--strategy exhaustive` and \
         `--want`, and not with `--at messages` or `--at requests`. In other runs a specification with `made` is not judged, which \
         is no pass",
    ),
    seen(
        PLANNED,
        "made_message",
        &[
            ("from", TEXT),
            ("to", TEXT),
            ("point", TEXT),
            ("from_is", TEXT),
            ("to_is", TEXT),
            ("from_port", INTEGER),
            ("to_port", INTEGER),
            ("times", INTEGER),
        ],
        None,
        "a node sent another one so many messages between these ports (0 is one that a kernel chose): a failure \
         point, with the ID that `--points --at messages` prints; `from_is` and `to_is` are what the nodes were: \
         their role, if a probe says so, else their kind or name. What a partition lost counts in namespaces, and \
         not on simulated machines. They are counted as long as the calls of `made` would be, only by `--strategy \
         exhaustive` and `--want`, and only with `--at messages` or `--at all`. In other runs a specification with \
         `made_message` is not judged, which is no pass",
    ),
    seen(
        PLANNED,
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
        RUN,
        "started",
        &[("node", TEXT), ("time", INTEGER)],
        TIME,
        "a node was ready: at 0 each, and each time that it was started again",
    ),
    watched(
        RUN,
        "not_ready",
        &[("node", TEXT), ("why", TEXT), ("time", INTEGER)],
        TIME,
        "a node that was started again did not become ready",
    ),
    watched(
        RUN,
        "ended",
        &[("node", TEXT), ("how", TEXT), ("time", INTEGER)],
        TIME,
        "a node ended by itself",
    ),
    seen(
        RUN,
        "client_ended",
        &[("client", TEXT), ("how", TEXT), ("time", INTEGER)],
        TIME,
        "a client ended",
    ),
    watched(
        PLANNED,
        "probe_failed",
        &[("why", TEXT), ("time", INTEGER)],
        TIME,
        "the probe gave no answer, or by HTTP a wrong one of some node",
    ),
    seen(
        RUN,
        "healed",
        &[("time", INTEGER)],
        TIME,
        "no fault was in place any more, and all nodes were ready",
    ),
    seen(
        PLANNED,
        "progress",
        &[("time", INTEGER)],
        TIME,
        "an endless client had an operation acknowledged: after `healed`; with `restores = \"majority\"` also once \
         before `healed`, when the majority was restored",
    ),
    seen(
        RUN,
        "over",
        &[("time", INTEGER)],
        TIME,
        "the clients had ended, and the check had looked",
    ),
    watched(
        SPOKEN,
        "found",
        &[("words", TEXT), ("time", INTEGER)],
        TIME,
        "the check, or what clients saw, says that this is broken",
    ),
    seen(
        RUN,
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
    seen(
        PLANNED,
        "looked_at",
        &[
            ("look", INTEGER),
            ("node", TEXT),
            ("after", TEXT),
            ("time", INTEGER),
        ],
        TIME,
        "somebody [looked](#directories-of-runs) at the directory of data of a node while nothing of the node ran, \
         right before it was started again: after a `power loss`, or a `stop` (it was killed, or had ended); and \
         when the `run` was over. `look` numbers looks in their order. It, and what was seen then, are there if a \
         rule asks for one of them",
    ),
    seen(
        PLANNED,
        "entry_at",
        &[
            ("look", INTEGER),
            ("node", TEXT),
            ("path", TEXT),
            ("kind", TEXT),
            ("size", INTEGER),
            ("target", TEXT),
            ("time", INTEGER),
        ],
        TIME,
        "what the directory had then, as `entry` says it of crash states",
    ),
    seen(
        PLANNED,
        "content_at",
        &[
            ("look", INTEGER),
            ("node", TEXT),
            ("path", TEXT),
            ("hash", TEXT),
            ("begins", TEXT),
            ("time", INTEGER),
        ],
        TIME,
        "what a file had then, as of `content`. Files of more than 1 MiB are not read: if a rule may ask for one, \
         its specification is not judged",
    ),
    seen(
        PLANNED,
        "line_at",
        &[
            ("look", INTEGER),
            ("node", TEXT),
            ("path", TEXT),
            ("number", INTEGER),
            ("line", TEXT),
            ("time", INTEGER),
        ],
        TIME,
        "a line that a file had then, as of `line`, with the same limit as `content_at`",
    ),
    seen(
        PROGRAM,
        "printed_by",
        &[
            ("number", INTEGER),
            ("client", TEXT),
            ("event", INTEGER),
            ("time", INTEGER),
        ],
        TIME,
        "who printed the line of this number, as which of the events",
    ),
    seen(
        STATE,
        "file_op",
        FILE_OP,
        TIME,
        "what a node did to a file and what had returned before the crash, in the order of `event`, \
         which numbers what all nodes did: `op` is `creat`, `mkdir`, `symlink`, `link`, `unlink`, \
         `rename`, `exchange`, `write`, `truncate`, `allocate`, `zero`, `chmod`, `setxattr`, `fsync`, \
         `fdatasync`, `fsync-range` or `sync`; `path` is what the file was called, from the node's \
         directory on (which is `.`); `to` the name that it got, or the target of a symbolic link; \
         `file` is the same number whatever its name; of `truncate`, `offset` is the new size. Of \
         [file systems](#file-systems) also `chown`, `removexattr`, `collapse`, `insert`, `reflink` and \
         `fdatasync-range`",
    ),
    watched(
        STATE,
        "in_flight",
        FILE_OP,
        TIME,
        "the same of what had begun and not returned; of programs, if it has left something on the disk",
    ),
    watched(
        PROGRAM,
        "lost_op",
        &[("event", INTEGER), ("node", TEXT), ("how", TEXT)],
        None,
        "what of it the disk has not, `all` or `in part`",
    ),
    seen(
        PROGRAM,
        "sent",
        MESSAGE,
        TIME,
        "a node sent bytes of a stream, those from `first` to before `after`",
    ),
    seen(
        PROGRAM,
        "received",
        MESSAGE,
        TIME,
        "a node received them: after each `sent` of the stream whose bytes are among its own",
    ),
    seen(
        STATE,
        "crashed",
        &[("node", TEXT), ("event", INTEGER), ("time", INTEGER)],
        TIME,
        "the power failed at a node after this event of its own; -1 if it had done nothing; \
         with `--again` of programs, once for each crash",
    ),
    seen(
        DISK,
        "operation",
        &[
            ("number", INTEGER),
            ("event", INTEGER),
            ("part", TEXT),
            ("words", TEXT),
            ("outcome", TEXT),
        ],
        None,
        "an operation of the workload that had been begun, numbered as in results: the first of its \
         events, -1 if it changes nothing and syncs nothing; `part` is `setup` or `run`, `words` is what \
         the workload says, `outcome` is `done`, `in flight`, or why it was refused",
    ),
    seen(
        DISK,
        "disk",
        &[("kind", TEXT)],
        None,
        "how the disk keeps its word, as `--disk` says it: `honest` (also if it is lazy), `drop-flush`, \
         `drop-fua` or `lose-write:N`",
    ),
    seen(
        DISK,
        "disk_state",
        &[
            ("crash", INTEGER),
            ("kind", TEXT),
            ("position", INTEGER),
            ("pending", INTEGER),
        ],
        None,
        "what the disk had kept when the power failed: `crash` is 0 for the failure in the run, 1 and more \
         for those in recoveries since (`--again`); `kind` is `prefix` (everything that it wrote), \
         `flushed`, `lost` or `torn`; `position` is where in the block log that was, `pending` how many writes it need not have \
         kept",
    ),
    watched(
        DISK,
        "lost_write",
        &[
            ("crash", INTEGER),
            ("place", INTEGER),
            ("number", INTEGER),
            ("offset", INTEGER),
            ("length", INTEGER),
            ("how", TEXT),
        ],
        None,
        "a write that the disk had not kept then, `all` of it or `in part`, or that it had said to have written \
         (`never written`, of `lose-write:N`): its place in the block log, the operation that was in flight when \
         it came (-1 for none, or in a recovery), and where on the disk what was lost lies, in bytes",
    ),
    seen(
        STATE,
        "entry",
        &[
            ("node", TEXT),
            ("path", TEXT),
            ("kind", TEXT),
            ("size", INTEGER),
            ("target", TEXT),
        ],
        None,
        "what the node's directory has after the crash: `kind` is `file`, `directory`, `symlink` \
         (which has a `target`) or `special`. The directory itself is `.`",
    ),
    seen(
        STATE,
        "content",
        &[
            ("node", TEXT),
            ("path", TEXT),
            ("hash", TEXT),
            ("begins", TEXT),
        ],
        None,
        "what a file has: the BLAKE3 hash of its bytes in hexadecimal, and the first 64 of them as a \
         text, without zeros. A file of a file system with more than 64 MiB has none: if a rule may ask \
         for it, it says nothing of the state, which is inconclusive",
    ),
    seen(
        STATE,
        "line",
        &[
            ("node", TEXT),
            ("path", TEXT),
            ("number", INTEGER),
            ("line", TEXT),
        ],
        None,
        "a line of a file, from number 1 on, without its end and without zeros. A file of more \
         than 1 MiB has none: if a rule may ask for them, the state is inconclusive. It does \
         not, where a constant, a list of names or a condition on the path says so \
         (`line(path: \"CURRENT\", …)`, `pointer(P)`, `P !~ \"[.]log$\"`)",
    ),
    seen(
        DISK,
        "attributes",
        &[
            ("node", TEXT),
            ("path", TEXT),
            ("inode", INTEGER),
            ("mode", TEXT),
            ("uid", INTEGER),
            ("gid", INTEGER),
            ("links", INTEGER),
            ("blocks", INTEGER),
        ],
        None,
        "what stat(2) says of an entry: names with one inode are one file; `mode` is written as `0644`, \
         `blocks` are of 512 bytes",
    ),
    seen(
        DISK,
        "xattr",
        &[
            ("node", TEXT),
            ("path", TEXT),
            ("name", TEXT),
            ("value", TEXT),
        ],
        None,
        "an extended attribute of an entry",
    ),
    watched(
        DISK,
        UNREADABLE,
        &[
            ("node", TEXT),
            ("path", TEXT),
            ("doing", TEXT),
            ("error", TEXT),
        ],
        None,
        "something that the file system would not show: what is below it is not among the entries, a \
         file has no `content` and no `line`, and a symbolic link no `entry`",
    ),
];
