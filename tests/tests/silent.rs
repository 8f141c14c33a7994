//! The programs of `tests/silent`, each with one planted mistake: it is found at every level where
//! a crash can show it, and its right twin is clean. `cases.toml` there says where.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use end_to_end::{program, require_root};
use toml::{Table, Value};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/silent");

/// The table that people read.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/silent.md");

/// The levels, each with the options of `crashpoint app`.
const LEVELS: [(&str, &[&str]); 9] = [
    ("posix", &["--model", "posix"]),
    ("ext4-ordered", &["--model", "ext4-ordered"]),
    ("ext4-writeback", &["--model", "ext4-writeback"]),
    ("xfs-model", &["--model", "xfs"]),
    ("btrfs-model", &["--model", "btrfs"]),
    ("ext4-disk", &["--disk", "ext4", "--level", "block"]),
    (
        "ext4-torn",
        &[
            "--disk",
            "ext4",
            "--level",
            "block",
            "--states",
            "every-write,flushed,reorder:1,torn:512",
        ],
    ),
    ("xfs-disk", &["--disk", "xfs", "--level", "block"]),
    ("btrfs-disk", &["--disk", "btrfs", "--level", "block"]),
];

/// The default: what the model of any file system allows, which `cases.toml` says of each.
const LINUX: (&str, &[&str]) = ("linux", &["--model", "linux"]);

/// The levels of those models.
const MODELS: std::ops::Range<usize> = 1..5;

/// What `cases.toml` may say of a case.
const FIELDS: [&str; 8] = [
    "impossible",
    "silent",
    "varies",
    "letter",
    "missed",
    "loose",
    "accused",
    "unmeasured",
];

/// A program with a mistake, and its twin without.
#[derive(Debug)]
struct Case {
    name: String,
    /// The first sentences of the program, in which the mistake is told.
    mistake: String,
    table: Table,
}

/// Which of the two programs of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twin {
    Right,
    Wrong,
}

impl Case {
    /// All of them, in the order of their names.
    fn all() -> Vec<Self> {
        let text = fs::read_to_string(format!("{FOLDER}/cases.toml")).expect("cases.toml is there");
        let table: Table = text.parse().expect("cases.toml is TOML");
        let case = |(name, fields): (String, Value)| {
            let Value::Table(table) = fields else {
                panic!("{name} is no table");
            };
            let unknown = table.keys().find(|key| !FIELDS.contains(&key.as_str()));
            assert_eq!(unknown, None, "{name} has a field that nobody reads");
            let (mistake, source) = told(&name);
            assert!(!source.is_empty(), "{name} has no source");
            Self {
                name,
                mistake,
                table,
            }
        };
        table.into_iter().map(case).collect()
    }

    /// The reason that a field gives for a level. The keys of a field are levels, or what their
    /// names begin with.
    fn reason(&self, field: &str, level: &str) -> Option<&str> {
        let levels = self.table.get(field)?.as_table()?;
        let named = |word: &str| {
            level
                .strip_prefix(word)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let (_, reason) = levels
            .iter()
            .find(|(key, _)| key.split_whitespace().any(named))?;
        reason.as_str()
    }

    /// The exit statuses that a sweep of it may have.
    fn statuses(&self, twin: Twin, level: &str) -> &'static [i32] {
        if level == LINUX.0 {
            return self.statuses_on_linux(twin);
        }
        let said = |field| self.reason(field, level).is_some();
        let by_letter = level == "posix" && self.table.contains_key("letter");
        match twin {
            _ if said("unmeasured") => &[2, 3],
            Twin::Right if said("accused") || by_letter => &[1],
            Twin::Right => &[0],
            Twin::Wrong if said("varies") => &[0, 1],
            Twin::Wrong if said("loose") => &[1],
            Twin::Wrong if ["impossible", "silent", "missed"].into_iter().any(said) => &[0],
            Twin::Wrong => &[1],
        }
    }

    /// The same on the default model: what some model accuses, it does as well.
    fn statuses_on_linux(&self, twin: Twin) -> &'static [i32] {
        let models = &LEVELS[MODELS];
        let is_one = |statuses: &&[i32]| {
            models
                .iter()
                .any(|(model, _)| self.statuses(twin, model) == *statuses)
        };
        let all: [&[i32]; 3] = [&[2, 3], &[1], &[0, 1]];
        all.into_iter().find(is_one).unwrap_or(&[0])
    }

    /// What the table of the documentation says of it at a level.
    fn cell(&self, level: &str) -> &'static str {
        let said = |field| self.reason(field, level).is_some();
        match () {
            () if said("unmeasured") => "**not measured**",
            () if said("missed") => "**missed**",
            () if said("accused") => "found, **twin accused**",
            () if said("loose") => "loose",
            () if said("impossible") => "-",
            () if said("silent") => "silent",
            () if said("varies") => "varies",
            () if self.statuses(Twin::Right, level) == [1] => "found, by the letter",
            () => "found",
        }
    }

    /// Sweeps it: the exit status, and what was said if it could not be judged.
    fn sweep(&self, twin: Twin, options: &[&str]) -> (Option<i32>, String) {
        let twin = if twin == Twin::Right {
            "right"
        } else {
            "wrong"
        };
        let script = format!("{FOLDER}/{}.py", self.name);
        let check = format!("/usr/bin/python3 -SB {script} {twin}");
        let mut command = Command::new(program("crashpoint"));
        command
            .args(["app", "--check-server", &check])
            .args(options)
            .args(["--", "/usr/bin/python3", "-SB", &script, twin, "{dir}"]);
        let output = command.output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    }
}

/// What a program says of its mistake and of its source, each as one line.
fn told(name: &str) -> (String, String) {
    let path = format!("{FOLDER}/{name}.py");
    let program = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let header = program.split("\"\"\"").nth(1).expect("a header");
    let (mistake, source) = header.split_once("\n\nSource: ").expect("a source");
    let line = |words: &str| words.split_whitespace().collect::<Vec<_>>().join(" ");
    (line(mistake), line(source))
}

/// Sweeps all cases at levels, two at a time, and says where one has not come to what it must.
fn assert_as_expected(cases: &[Case], levels: &[(&str, &[&str])]) {
    let jobs = levels.iter().flat_map(|level| {
        let twins = [Twin::Wrong, Twin::Right];
        cases
            .iter()
            .flat_map(move |case| twins.map(|twin| (case, twin, level)))
    });
    let (jobs, wrong) = (Mutex::new(jobs), Mutex::new(String::new()));
    let work = || {
        loop {
            let job = jobs.lock().expect("nobody panicked").next();
            let Some((case, twin, (level, options))) = job else {
                break;
            };
            let expected = case.statuses(twin, level);
            let (status, said) = case.sweep(twin, options);
            let fits = status.is_some_and(|status| expected.contains(&status));
            if !fits {
                let mut wrong = wrong.lock().expect("nobody panicked");
                let name = &case.name;
                writeln!(
                    wrong,
                    "{level}: {name}, {twin:?}: status {status:?}, not one of {expected:?}\n{said}"
                )
                .expect("text");
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let wrong = wrong.into_inner().expect("nobody panicked");
    assert!(wrong.is_empty(), "{wrong}");
}

/// Mistakes by level, in Markdown. The column `linux` has what the model of some file system has.
fn table(cases: &[Case]) -> String {
    let mut lines = String::from("| mistake | linux |");
    for (level, _) in LEVELS {
        lines += &format!(" {level} |");
    }
    lines += &format!("\n|---|---|{}\n", "---|".repeat(LEVELS.len()));
    for case in cases {
        let cells: Vec<_> = LEVELS.iter().map(|(level, _)| case.cell(level)).collect();
        let linux = ["found", "**missed**", "**not measured**"]
            .into_iter()
            .find(|word| cells[MODELS].iter().any(|cell| cell.starts_with(word)))
            .unwrap_or("-");
        let (name, mistake) = (&case.name, &case.mistake);
        lines += &format!(
            "| `{name}`: {mistake} | {linux} | {} |\n",
            cells.join(" | ")
        );
    }
    lines
}

#[test]
fn each_program_has_its_expectations() {
    let named: Vec<_> = Case::all().into_iter().map(|case| case.name).collect();
    let mut there: Vec<_> = fs::read_dir(FOLDER)
        .expect("read")
        .filter_map(|entry| {
            let path = entry.expect("read").path();
            let is_case = path.extension()? == "py" && path.file_stem()? != "planted";
            is_case.then(|| {
                path.file_stem()
                    .expect("a name")
                    .to_string_lossy()
                    .into_owned()
            })
        })
        .collect();
    there.sort();
    assert_eq!(named, there);
    assert!(named.len() >= 40);
}

#[test]
fn the_documentation_has_the_table() {
    let page = fs::read_to_string(Path::new(PAGE)).expect("docs/silent.md is there");
    let table = table(&Case::all());
    assert!(page.contains(&table), "{PAGE} lacks this table:\n{table}");
}

/// One of them is SQLite without syncs, which make test has nowhere else. All are swept at all levels in
/// make test-long.
#[test]
fn every_fifth_mistake_is_found_where_everything_is_allowed_and_no_right_program_is_accused() {
    let some: Vec<_> = Case::all().into_iter().skip(2).step_by(5).collect();
    let is_sqlite = |case: &Case| case.name == "sqlite-synchronous-off";
    assert!(some.len() >= 20 && some.iter().any(is_sqlite), "{some:?}");
    assert_as_expected(&some, &LEVELS[..1]);
}

#[test]
fn a_disk_that_writes_a_page_whole_does_not_tear_a_record_of_two_sectors() {
    let cases = Case::all();
    let of_name = |case: &&Case| case.name == "two-sectors-in-place";
    let case = cases.iter().find(of_name).expect("it is one of them");
    for (sector, status) in [("512", 1), ("4096", 0), ("1000", 2)] {
        let options = ["--model", "ext4-ordered", "--sector", sector];
        let (found, said) = case.sweep(Twin::Wrong, &options);
        assert_eq!(found, Some(status), "{sector}: {said}");
    }
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn every_mistake_is_found_at_each_level_where_it_can_happen_and_no_right_program_is_accused() {
    require_root();
    let cases = Case::all();
    let all = [&[LINUX][..], &LEVELS].concat();
    // Only some of them, such as SILENT_LEVELS=xfs-model,xfs-disk.
    let wanted = std::env::var("SILENT_LEVELS").unwrap_or_default();
    for name in wanted.split(',').filter(|name| !name.is_empty()) {
        let is_known = all.iter().any(|(level, _)| *level == name);
        assert!(is_known, "SILENT_LEVELS: there is no level {name}");
    }
    let is_wanted = |name: &str| wanted.is_empty() || wanted.split(',').any(|level| level == name);
    let levels: Vec<_> = all
        .into_iter()
        .filter(|(name, _)| is_wanted(name))
        .collect();
    assert_as_expected(&cases, &levels);
    println!("{}", table(&cases));
}
