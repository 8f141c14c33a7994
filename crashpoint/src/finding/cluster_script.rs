//! A cluster as a shell script that starts it on the directories of a crash state, for people who do
//! not have Crashpoint.

use std::fmt::Write;

use brief::counted;
use campaign::quoted;
use cluster::{ClusterFile, DIRECTORY, GO_STATUS, GO_WANTS, NodeConfig, Ready, client_address};
use node_sweep::Turns;

use super::states::XATTRS;

/// How long nodes that come first are alone, if the cluster file does not say, in seconds.
const ALONE_S: f64 = 1.0;

/// How often the script looks, in a second.
const LOOKS: f64 = 10.0;

/// What asks a node by HTTP whether all is well with it. Which programs are missing is known when it is run.
const ANSWERS: &str = "curl --fail --max-time 1";

/// What the script has in it before anything of this cluster.
const BEGIN: &str = r#"# shellcheck disable=SC2317
set -eu
PATH=$PATH:/usr/sbin:/sbin
for program in unshare nsenter ip awk base64 tar; do
    command -v "$program" >/dev/null || { echo "$program is missing" >&2; exit 2; }
done
if [ -z "${IN_NAMESPACES-}" ]; then
    export IN_NAMESPACES=yes
    user=
    [ "$(id -u)" = 0 ] || user='--user --map-root-user'
    # shellcheck disable=SC2086
    exec unshare $user --mount --net --pid --fork --kill-child --mount-proc sh "$0"
fi
unset IN_NAMESPACES
"#;

/// How nodes are started and waited for.
const FUNCTIONS: &str = r#"
pid_of() { cat "$top/$1.pid"; }

# node NAME ADDRESS DIRECTORY COMMAND...: a node with a network of its own, which is not started yet.
# So one that is asked for before it is started refuses at once, and does not keep who asks waiting.
node() {
    name=$1 address=$2 directory=$3
    shift 3
    mkfifo "$top/$name.go"
    # shellcheck disable=SC2016
    unshare --net --uts --ipc --mount sh -ec '
        hostname "$2"
        mount -t tmpfs crash /dev/shm
        ip link set lo up
        echo there >"$1"
        read -r go <"$1"
        cd "$3"
        shift 3
        exec "$@" </dev/null' sh "$top/$name.go" "$name" "$directory" "$@" \
        >"$top/$name.log" 2>&1 &
    pid=$!
    echo "$pid" >"$top/$name.pid"
    read -r _ <"$top/$name.go"
    ip link add "v$pid" type veth peer name eth0 netns "$pid"
    ip link set "v$pid" master bridge up
    nsenter --target "$pid" --net ip address add "$address/16" dev eth0
    nsenter --target "$pid" --net ip link set eth0 up
}

start() { echo go >"$top/$1.go"; }

# What says that a node is ready: words in its log, a port at which it listens, or a command there.
logs() { grep -qF -- "$2" "$top/$1.log"; }
listens() {
    awk -v port="$(printf ':%04X' "$2")" \
        '$4 == "0A" && substr($2, length($2) - 4) == port { found = 1 } END { exit !found }' \
        "/proc/$(pid_of "$1")/net/tcp" "/proc/$(pid_of "$1")/net/tcp6"
}
runs() {
    pid=$(pid_of "$1")
    shift
    nsenter --target "$pid" --net --uts --ipc --mount -- "$@"
}

# within TENTHS CONDITION NAME...: whether it comes true before that many tenths of a second are over.
within() {
    left=$1
    shift
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        if [ "$left" -le 0 ] || ! grep -q '^State:.[^Z]' "/proc/$(pid_of "$2")/status" 2>/dev/null; then
            return 1
        fi
        sleep 0.1
    done
}

# The same, for a node that has to come up.
await() {
    if ! within "$@"; then
        echo "broken node $3 does not come up; its log ends with:"
        tail -n 20 "$top/$3.log"
        exit 1
    fi
}
"#;

/// How the script ends, after what the check said. `GO` and `WANTS` are what is known of Go.
const END: &str = r#"died=
case $status in
132 | 134 | 135 | 136 | 139) died="signal $((status - 128))" ;;
GO)
    if grep -aE '^(fatal error: |\[signal SIG)' "$top/errors" | grep -aqvE '^fatal error: .*(WANTS)'; then
        died='a fault in Go'
    fi
    ;;
esac
if [ -n "$died" ]; then
    echo "broken the check died of $died"
    exit 1
fi
case $status in
0 | 1) ;;
*)
    echo "the check ended with status $status" >&2
    exit 3
    ;;
esac
says() { printf '%s\n' "$said" | grep -qE "^$1:?([[:space:]]|\$)"; }
if says broken; then exit 1; fi
if [ "$status" = 0 ] && says ok; then exit 0; fi
echo 'the check gave no verdict' >&2
exit 3
"#;

/// How a check that answers for one state after the other has answered for this one: whatever it does
/// when it is asked no more, it has said all.
const ANSWERED: &str = r#"if printf '%s\n' "$said" | grep -qx end; then
    status=0
elif [ "$status" -lt 2 ]; then
    echo 'the check ended without an answer' >&2
    exit 3
fi
"#;

/// A step of starting the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Start(usize),
    Ready(usize),
    /// A node that came first is alone.
    Alone(usize),
}

/// The script after its heading. `archives` are those of the directories of nodes that have one, and
/// `acknowledged` what was acknowledged, in base64.
pub(super) fn script(
    file: &ClusterFile,
    turns: Option<&Turns>,
    archives: &[(String, String)],
    acknowledged: &str,
) -> anyhow::Result<String> {
    let mut text = BEGIN.to_owned();
    text += &network(file);
    text += FUNCTIONS;
    text += "\n# What the nodes had on their disks, and what had been acknowledged.\n";
    for (node, archive) in archives {
        let directory = format!("{DIRECTORY}/{node}");
        writeln!(
            text,
            "mkdir {directory}\nbase64 -d <<'END' | tar {XATTRS} -xzf - -C {directory}\n{archive}END"
        )?;
    }
    writeln!(
        text,
        "base64 -d >\"$top/acknowledged\" <<'END'\n{acknowledged}END\n"
    )?;
    text += &started(file, turns);
    let nodes = counted(file.nodes.len(), "node");
    writeln!(
        text,
        "\n# The check is where the client was: outside of the {nodes}.\ncd /"
    )?;
    for (name, value) in file.client_environment() {
        writeln!(text, "export {name}={}", quoted(&value))?;
    }
    text += &check(file)?;
    Ok(text + &end())
}

/// As a sweep takes how the check ended ([`cluster::died_of`]).
fn end() -> String {
    let end = END.replace("GO)", &format!("{GO_STATUS})"));
    end.replace("WANTS", &GO_WANTS.join("|"))
}

/// How the nodes are laid out, and then started, in turns if there are some.
fn started(file: &ClusterFile, turns: Option<&Turns>) -> String {
    let mut text = String::new();
    let alone_s = file
        .first_alone
        .map_or(ALONE_S, |alone| alone.as_secs_f64());
    text.extend(file.nodes.iter().map(node));
    text.push('\n');
    for step in steps(file, turns) {
        text += &match step {
            Step::Start(node) => format!("start {}\n", file.nodes[node].name),
            Step::Ready(node) => waited(
                "await",
                &file.nodes[node],
                file.nodes[node].ready_within.as_secs_f64(),
            ),
            Step::Alone(_) if file.first_alone.is_some() => format!("sleep {alone_s}\n"),
            Step::Alone(node) => {
                waited("within", &file.nodes[node], alone_s).replace('\n', " || true\n")
            }
        };
    }
    text
}

fn network(file: &ClusterFile) -> String {
    let hosts = file
        .nodes
        .iter()
        .map(|node| format!("{} {}\\n", node.address, node.name));
    format!(
        "\n# A network that nobody else sees, and memory in place of disks.\n\
         mkdir -p {DIRECTORY} 2>/dev/null || {{ mount -t tmpfs crash /run; mkdir {DIRECTORY}; }}\n\
         mount -t tmpfs crash {DIRECTORY}\ntop={DIRECTORY}/.export\nmkdir \"$top\"\n\
         printf '127.0.0.1 localhost\\n{}' >\"$top/hosts\"\nmount --bind \"$top/hosts\" /etc/hosts\n\
         ip link set lo up\nip link add bridge type bridge\nip address add {}/16 dev bridge\n\
         ip link set bridge up\n",
        hosts.collect::<String>(),
        client_address(0),
    )
}

/// Nodes wait for those in their `after`, and those that are later for all others.
fn steps(file: &ClusterFile, turns: Option<&Turns>) -> Vec<Step> {
    let all = 0..file.nodes.len();
    let none = Vec::new();
    let (first, later) = turns.map_or((&none, &none), |turns| (&turns.first, &turns.later));
    let (late, early): (Vec<_>, Vec<_>) = all.clone().partition(|node| later.contains(node));
    let mut steps = Vec::new();
    for group in [early, late] {
        if !group.is_empty() && !steps.is_empty() {
            steps.extend(first.iter().map(|node| Step::Alone(*node)));
        }
        for next in in_order(file, group) {
            for other in next.iter().flat_map(|node| &file.nodes[*node].after) {
                wait_for(*other, &mut steps);
            }
            steps.extend(next.into_iter().map(Step::Start));
        }
    }
    all.for_each(|node| wait_for(node, &mut steps));
    steps
}

/// Waits for a node, once. One that the state has come later is not waited for before that.
fn wait_for(node: usize, steps: &mut Vec<Step>) {
    let ready = Step::Ready(node);
    if steps.contains(&Step::Start(node)) && !steps.contains(&ready) {
        steps.push(ready);
    }
}

/// Some nodes in the order in which they start: those that wait for none of the others first.
fn in_order(file: &ClusterFile, mut left: Vec<usize>) -> impl Iterator<Item = Vec<usize>> {
    std::iter::from_fn(move || {
        let waits = |node: &usize| {
            let mut others = file.nodes[*node].after.iter();
            others.any(|other| left.contains(other))
        };
        let (waiting, next): (Vec<_>, Vec<_>) = left.iter().copied().partition(waits);
        left = waiting;
        Some(next).filter(|next| !next.is_empty())
    })
}

/// Words as a shell reads them.
fn shell(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

fn node(node: &NodeConfig) -> String {
    let directory = if node.has_data {
        format!("{DIRECTORY}/{}", node.name)
    } else {
        "/".to_owned()
    };
    let environment = node.environment.iter();
    let environment = environment.map(|(name, value)| format!("{name}={value}"));
    let words = ["env".to_owned()].into_iter().chain(environment);
    let words: Vec<_> = words.chain(node.command.iter().cloned()).collect();
    let (owner, user) = match &node.user {
        Some(user) if node.has_data => (
            format!("chown -R {user}: {directory}\n"),
            format!("runuser -u {user} -- "),
        ),
        Some(user) => (String::new(), format!("runuser -u {user} -- ")),
        None => (String::new(), String::new()),
    };
    format!(
        "{owner}node {} {} {directory} {user}{}\n",
        node.name,
        node.address,
        shell(&words)
    )
}

/// Waits until a node is ready, if it says so.
fn waited(how: &str, node: &NodeConfig, seconds: f64) -> String {
    let tenths = (seconds * LOOKS).ceil() as u64;
    let name = &node.name;
    match &node.ready {
        None => String::new(),
        Some(Ready::Log(words)) => format!("{how} {tenths} logs {name} {}\n", quoted(words)),
        Some(Ready::Port(port)) => format!("{how} {tenths} listens {name} {port}\n"),
        Some(Ready::Command(words)) => format!("{how} {tenths} runs {name} {}\n", shell(words)),
        Some(Ready::Http { url, .. }) => {
            format!("{how} {tenths} runs {name} {ANSWERS} {}\n", quoted(url))
        }
    }
}

fn check(file: &ClusterFile) -> anyhow::Result<String> {
    let check = file.check.as_ref().expect("there is one");
    let acks = format!("{DIRECTORY}/.export/acknowledged");
    let (runs, answered) = if check.serve {
        let words = shell(&check.command(None)?);
        (format!("printf -- '-\\t%s\\n' {acks} | {words}"), ANSWERED)
    } else {
        (shell(&check.command(Some(acks.as_ref()))?), "")
    };
    Ok(format!(
        "status=0\nsaid=$({runs} 2>\"$top/errors\") || status=$?\ncat \"$top/errors\" >&2\n\
         printf '%s\\n' \"$said\"\n{answered}"
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// b comes after a, and c says when it is ready in no way.
    const CLUSTER: &str = r#"
        [[nodes]]
        name = "b"
        command = "b --words 'of two'"
        ready = { port = 2379 }
        after = ["a"]
        user = "root"

        [[nodes]]
        name = "a"
        command = "a {dir}"
        ready = { command = "ask {address}" }
        ready_within_s = 2.5

        [[nodes]]
        name = "c"
        command = "c"
        data = false

        [check]
        command = "check --serve"
        serve = true
    "#;

    fn file() -> ClusterFile {
        ClusterFile::parse(CLUSTER, Path::new("cluster.toml"), Path::new("/")).expect("parsed")
    }

    #[test]
    fn a_node_waits_for_those_that_it_comes_after_and_for_those_that_are_first() {
        use Step::{Alone, Ready, Start};
        let together = [Start(1), Start(2), Ready(1), Start(0), Ready(0), Ready(2)];
        assert_eq!(steps(&file(), None), together);
        let turns = Turns {
            first: vec![2],
            later: vec![0, 1],
        };
        let in_turns = [
            Start(2),
            Alone(2),
            Start(1),
            Ready(1),
            Start(0),
            Ready(0),
            Ready(2),
        ];
        assert_eq!(steps(&file(), Some(&turns)), in_turns);
    }

    #[test]
    fn nodes_are_started_and_waited_for_as_the_file_says() {
        let archives = [("a".to_owned(), "QQ==\n".to_owned())];
        let script = script(&file(), None, &archives, "").expect("written");
        let lines = [
            "chown -R root: /run/crashpoint/b",
            "node b 10.77.0.1 /run/crashpoint/b runuser -u root -- env b --words 'of two'",
            "await 300 listens b 2379",
            "await 25 runs a ask 10.77.0.2",
            "node c 10.77.0.3 / env c",
            "start c",
            "said=$(printf -- '-\\t%s\\n' /run/crashpoint/.export/acknowledged | check --serve 2>\"$top/errors\") || status=$?",
        ];
        for line in lines {
            assert!(script.contains(&format!("\n{line}\n")), "{line}\n{script}");
        }
    }

    #[test]
    fn a_node_that_answers_by_http_when_it_is_ready_is_asked_where_it_is() {
        let http = "ready = { http = \"http://{address}:8080/health?of=all&all\" }";
        let text = CLUSTER.replace("ready = { port = 2379 }", http);
        let file = ClusterFile::parse(&text, Path::new("cluster.toml"), Path::new("/"));
        let waited = waited("await", &file.expect("parsed").nodes[0], 2.5);
        let asks = "curl --fail --max-time 1 'http://10.77.0.1:8080/health?of=all&all'";
        assert_eq!(waited, format!("await 25 runs b {asks}\n"));
    }

    /// How the script ends if the check does this.
    fn status(does: &str, serve: bool) -> Option<i32> {
        let program = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(&program, does).expect("written");
        let asked = format!("sh {}", program.path().display());
        let text = CLUSTER.replace("check --serve", &asked);
        let mut file =
            ClusterFile::parse(&text, Path::new("cluster.toml"), Path::new("/")).expect("parsed");
        file.check.as_mut().expect("there is one").serve = serve;
        let top = tempfile::tempdir().expect("a directory");
        let check = check(&file).expect("words");
        let script = format!("set -eu\ntop={}\n{check}{}", top.path().display(), end());
        let output = Command::new("sh").args(["-c", &script]).output();
        output.expect("it runs").status.code()
    }

    /// As `cluster::verdict` takes it.
    #[test]
    fn the_script_ends_as_the_check_has_said() {
        for (does, ends) in [
            ("echo ok", 0),
            ("echo 'ok: 5 keys'", 0),
            ("printf 'ok\t5 keys\n'", 0),
            ("echo broken k1; exit 1", 1),
            ("echo 'broken: k1'; echo ok", 1),
            ("printf 'broken\tk1\n'; echo ok", 1),
            ("echo ok; kill -SEGV $$", 1),
            ("echo ok; exit 1", 3),
            ("echo broken; exit 2", 3),
            ("echo ok; kill -TERM $$", 3),
            ("echo okay; echo ok:ay; echo brokenness", 3),
            ("echo 'fatal error: fault' >&2; exit 2", 1),
            ("echo ok; echo '[signal SIGSEGV: x]' >&2; exit 2", 1),
            ("echo 'fatal error: runtime: out of memory' >&2; exit 2", 3),
            (
                "echo 'fatal error: newosproc' >&2; echo 'fatal error: fault' >&2; exit 2",
                1,
            ),
            ("echo 'fatal error: fault' >&2; exit 3", 3),
        ] {
            assert_eq!(status(does, false), Some(ends), "{does}");
        }
        for (does, ends) in [
            ("read x; echo ok; echo end; exit 7", 0),
            ("read x; echo 'broken: k1'; echo end", 1),
            ("read x; kill -SEGV $$", 1),
            ("read x; echo 'fatal error: fault' >&2; exit 2", 1),
            ("read x; echo ok", 3),
        ] {
            assert_eq!(status(does, true), Some(ends), "{does}");
        }
    }
}
