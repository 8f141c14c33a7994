//! Where the program runs it leaves the mounts of others alone: in a chroot, whose root is a
//! directory, or a mount that its namespace shares with others. Needs root.

use std::fmt;
use std::process::Command;

use end_to_end::{program, require_root, said};

/// What the root of a chroot is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Root {
    Directory,
    Mount,
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Mount {
            "mount --bind root root"
        } else {
            "true"
        })
    }
}

/// Runs the program in a chroot with this system's programs, and with what is mounted shared with
/// other mount namespaces, as an init does it. Everything is in a mount namespace that goes with
/// it; what is mounted there must be the same afterwards.
fn in_chroot(root: Root, prepare: &str, arguments: &str) -> String {
    require_root();
    let place = tempfile::tempdir().expect("a directory");
    let folder = program("crashpoint")
        .parent()
        .expect("it is in a folder")
        .display()
        .to_string();
    let script = format!(
        r"set -e
        cd {place}
        mount -t tmpfs crashpoint-test .
        cd .
        cd {place}
        mkdir root
        {root}
        cd {place}/root
        for name in bin lib lib32 lib64 libx32 sbin usr etc opt dev proc sys; do
            if [ -L /$name ]; then
                cp -P /$name .
            elif [ -d /$name ]; then
                mkdir $name
                mount --rbind /$name $name
            fi
        done
        mkdir programs run work
        mkdir -m 1777 tmp
        mount --bind {folder} programs
        mount --make-rshared /
        cd work
        {prepare}
        cat /proc/self/mountinfo >{place}/before
        status=0
        env -u TMPDIR chroot {place}/root sh -c 'cd /work; exec /programs/crashpoint {arguments}' || status=$?
        cat /proc/self/mountinfo >{place}/after
        diff {place}/before {place}/after >&2
        ls -A ../tmp >{place}/left
        diff /dev/null {place}/left >&2
        exit $status",
        place = place.path().display(),
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    let output = command.output().expect("it runs");
    assert!(
        output.status.success(),
        "{}: {}",
        output.status,
        said(&output)
    );
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_sweep_in_a_chroot() {
    for root in [Root::Directory, Root::Mount] {
        let arguments = "fs --fs ext4 --ops 1 --sample 5 --jobs 2 --format json";
        let printed = in_chroot(root, "", arguments);
        let summary: serde_json::Value =
            serde_json::from_str(printed.lines().last().expect("a summary")).expect("an object");
        assert_eq!(summary["inconclusive"], 0, "{printed}");
        assert_eq!(summary["workloads"], 5, "{printed}");
    }
}

#[test]
fn a_cluster_in_a_chroot_sees_its_files() {
    for root in [Root::Directory, Root::Mount] {
        let prepare = r#"
            echo here >mine
            cat >cluster.toml <<'END'
[[nodes]]
name = "one"
command = "sh -c 'cat /work/mine >{dir}/seen; exec sleep 1000'"
ready = { command = "test -s seen" }
[client]
command = "cat /work/mine"
END"#;
        assert_eq!(
            in_chroot(root, prepare, "cluster run cluster.toml --client"),
            "here\n"
        );
    }
}
