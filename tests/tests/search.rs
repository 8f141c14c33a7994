//! The search for a failure that makes a line of a log. Needs root.

use end_to_end::{Folder, printed, said};

/// A node that installs a snapshot after other work: first the manifest that names it, which is wrong,
/// and then its name. It waits for the client the first time, so that all of it is in the run.
const NODE: &str = r#"
cd "$1"
[ -e begun ] || first=yes
: >begun
if [ -e manifest ] && [ ! -e "$(cat manifest)" ]; then
    echo "cannot start: snapshot $(cat manifest) not found"
fi
echo ready
[ -z "$first" ] || python3 -Ic "import socket; socket.create_server(('$2', 7000)).accept()"
for name in users orders prices stock; do
    echo 1 >$name.new
    mv $name.new $name
done
echo 1 >snapshot.new
echo snapshot-7 >manifest.new
mv manifest.new manifest
mv snapshot.new snapshot-7
exec sleep 600
"#;

/// A node whose log has no word in common with what it does.
const STEPS: &str = r#"
cd "$1"
[ -e begun ] || first=yes
: >begun
if [ -e kilo ] && [ ! -e lima ]; then
    echo "something is wrong with me"
fi
echo ready
[ -z "$first" ] || python3 -Ic "import socket; socket.create_server(('$2', 7000)).accept()"
for name in alfa bravo charlie delta echo foxtrot golf hotel india juliett kilo lima; do
    if [ ! -e $name ]; then
        mkdir $name
        echo "step: now there is $name"
        sleep 0.01
    fi
done
exec sleep 600
"#;

/// A node with one call, which ends if that fails.
const CAREFUL: &str = r#"
cd "$1"
echo ready
[ -e value ] || python3 -Ic "import socket; socket.create_server(('$2', 7000)).accept()"
[ -e value ] || mkdir value || exit 4
exec sleep 600
"#;

const CLUSTER: &str = r#"
[[nodes]]
name = "a"
command = "sh {here}/node.sh {dir} {address}"
ready = { log = "ready" }
stop = "SIGKILL"
[client]
command = "bash -c 'until : >/dev/tcp/{address:a}/7000; do sleep 0.02; done; sleep 1.5'"
"#;

fn laid(node: &str) -> Folder {
    Folder::new(&[("cluster.toml", CLUSTER), ("node.sh", node)])
}

fn search<'a>(want: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["inject", "cluster.toml", "--want", want], more].concat()
}

/// How many failures were tried, of how many.
fn tried(text: &str) -> (usize, usize) {
    let line = text
        .lines()
        .find(|line| line.starts_with("single failures: "));
    let words: Vec<_> = line.expect("it is told").split(' ').collect();
    let number = |place: usize| words[place].parse().expect("a number");
    (number(2), number(4))
}

#[test]
fn the_failure_that_makes_a_line_is_found_by_its_words_and_made_again() {
    let laid = laid(NODE);
    let want = "log: \"snapshot snapshot-7 not found\"";
    let text = printed(&laid.ends(1, &search(want, &["--out", "found"])));
    let (tried, of) = tried(&text);
    assert!(tried <= 8 && of >= 60, "{tried} of {of}");
    assert!(
        text.contains("`: shown by run ") && text.contains("wanted: shown(\"a\", "),
        "{text}"
    );
    let shown = printed(&laid.run(&["show", "found"]));
    let (_, replay) = shown.split_once(" replay found ").expect("it is told");
    let number = replay.split_whitespace().next().expect("a number");
    laid.ends(1, &["replay", "found", number]);
    // It goes on where it stopped, with the search for one more.
    let again = ["inject", "--resume", "found", "--budget", "0s"];
    let again = said(&laid.ends(1, &again));
    assert!(again.ends_with("inject --resume found\n"), "{again}");
    laid.ends(0, &["report", "found", "--junit", "found.xml"]);
    let junit = laid.read("found.xml");
    assert!(
        junit.contains("<failure") && !junit.contains("<error"),
        "{junit}"
    );
}

#[test]
#[ignore = "it takes a minute: make test-long"]
fn a_log_that_was_given_says_when_the_failure_came() {
    let laid = laid(STEPS);
    let names = [
        "alfa", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india",
    ];
    let names = names.iter().chain(&["juliett", "kilo"]);
    let lines = names.map(|name| format!("17:03 step: now there is {name}\n"));
    let seen = format!(
        "ready\n{}something is wrong with me\n",
        lines.collect::<String>()
    );
    laid.write("production.log", &seen);
    let want = "log: something is wrong";
    let text = printed(&laid.ends(1, &search(want, &["--seen-in", "production.log"])));
    let (with, of) = tried(&text);
    let (without, _) = tried(&printed(&laid.ends(1, &search(want, &[]))));
    assert!(
        with <= 4 && without >= 10 && of >= 40,
        "{with} and {without} of {of}"
    );
}

/// A check that finds something whenever it is asked but for the first time, the fourth, and so on: what
/// a run without failures does not show, the next one does, and that after it does not.
const CHANCE: &str = r#"
echo asked >>"$1"
[ $(($(wc -l <"$1") % 3)) -eq 1 ] && echo ok || echo broken odd luck
"#;

#[test]
fn what_is_shown_by_chance_is_not_laid_to_a_failure() {
    let cluster = format!("{CLUSTER}[check]\ncommand = \"sh {{here}}/check.sh {{here}}/asked\"\n");
    let files = [
        ("cluster.toml", &*cluster),
        ("node.sh", NODE),
        ("check.sh", CHANCE),
    ];
    let laid = Folder::new(&files);
    let text = printed(&laid.ends(3, &search("found: odd luck", &["--sample", "1"])));
    let words = "was not when the same failure came again";
    assert_eq!(text.matches(words).count(), 1, "{text}");
    assert!(text.contains("not shown by any run"), "{text}");
}

/// The first failure is a kill of the node, which is started again then, and the second an error of its call.
#[test]
fn the_failure_that_ends_a_node_is_found_and_that_which_makes_a_rule_hold() {
    let cluster = CLUSTER.replace("sleep 1.5", "sleep 0.3");
    let found = |want: &str, fact: &str, run: u32| {
        let laid = Folder::new(&[("cluster.toml", &cluster), ("node.sh", CAREFUL)]);
        let text = printed(&laid.ends(1, &search(want, &["--sample", "4"])));
        let broken = format!("  broken        wanted: {fact} from ");
        assert!(text.contains(&broken), "{text}");
        let shown = format!("wanted `{want}`: shown by run {run}\n");
        assert!(text.contains(&shown), "{text}");
    };
    let twice = "twice(N) :- started(N, T), T > 0.";
    // They mostly wait.
    std::thread::scope(|scope| {
        scope.spawn(|| found(twice, "twice(\"a\")", 1));
        found("exit", "shown(\"a\", \"ended with status 4\")", 2);
    });
}

#[test]
fn what_no_failure_shows_is_no_answer_and_what_is_there_anyway_is_refused() {
    let laid = laid(NODE);
    let nobody = ["--sample", "1", "--out", "none"];
    let none = laid.ends(3, &search("log: nobody says this", &nobody));
    laid.ends(0, &["report", "none", "--junit", "none.xml"]);
    let junit = laid.read("none.xml");
    assert!(junit.contains("no run shows what is wanted"), "{junit}");
    let again = said(&laid.ends(2, &search("log: nobody says this", &nobody)));
    assert!(!again.contains("failure points"), "{again}");
    let text = printed(&none);
    assert!(
        text.contains("wanted `log: nobody says this`: not shown by any run"),
        "{text}"
    );
    for (want, why) in [
        ("log: ready", "a run without failures shows what is wanted"),
        ("no colon", "--want: `no colon` is none of log: TEXT"),
        ("x(A) :- logd(A).", "did you mean logged?"),
    ] {
        let said = said(&laid.ends(2, &search(want, &[])));
        assert!(
            said.contains(why) && said.lines().count() == 1,
            "{want}: {said}"
        );
    }
    let partitions = laid.ends(2, &search("exit", &["--strategy", "partitions"]));
    assert!(said(&partitions).contains("leave out --strategy"));
}
