//! Real programs, recorded: what they did, done again, gives the directory that they left.

mod support;

use std::process::Command;

use recorder::process::{NodeOptions, about_now, join, start};
use support::{Recorded, python_command, record_command, shell};
use trace::FileOp;

fn syncs(recorded: &Recorded) -> usize {
    recorded
        .operations()
        .iter()
        .filter(|op| matches!(op, FileOp::Sync { .. } | FileOp::SyncAll))
        .count()
}

#[test]
fn sqlite_in_every_journal_mode() {
    for mode in ["delete", "truncate", "persist", "memory", "wal", "off"] {
        for synchronous in ["full", "normal", "off", "extra"] {
            let recorded = shell(&format!(
                "sqlite3 db 'pragma synchronous={synchronous}; pragma journal_mode={mode}; create table t(a,b); \
                 begin; insert into t values(1,2); insert into t values(3,zeroblob(20000)); commit; \
                 update t set b=5; delete from t where a=1; vacuum;' && echo acknowledged"
            ));
            recorded.assert_exact();
            assert_eq!(
                syncs(&recorded) > 0,
                synchronous != "off",
                "{mode} {synchronous}\n{}",
                recorded.text()
            );
        }
    }
}

#[test]
fn git() {
    let recorded = shell(
        "export HOME=$PWD GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; \
         git init -q .; for i in 1 2 3 4 5; do seq $i 1000 >file$i; git add .; git commit -qm $i; done; \
         git checkout -qb other; git mv file1 file6; git commit -qam six; git checkout -q -; git gc -q; git fsck",
    );
    recorded.assert_exact();
    assert!(recorded.operations().len() > 100);
}

#[test]
fn redis_with_its_log_always_synced() {
    let recorded = shell(
        "redis-server --port 0 --unixsocket $PWD/s --appendonly yes --appendfsync always --dir $PWD --save '' >/dev/null & \
         until redis-cli -s s ping >/dev/null 2>&1; do sleep 0.05; done; \
         for i in 1 2 3 4 5 6 7 8 9 10; do redis-cli -s s set key$i value$i; done; \
         redis-cli -s s bgrewriteaof; sleep 0.5; redis-cli -s s set last one; redis-cli -s s shutdown; wait",
    );
    recorded.assert_exact();
    assert!(syncs(&recorded) >= 11, "{}", recorded.text());
}

/// Operations of any kind on a few names, by several processes and threads, as a seed says.
const ANYTHING: &str = r#"
import ctypes, os, random, sys, threading, mmap, socket
seed = int(sys.argv[1])
libc = ctypes.CDLL(None)
def work(me):
    r = random.Random(seed * 1000 + me)
    names = ["a", "b", "c", "d/a", "d/b", "d/e/a", "e"]
    files = []
    for step in range(150):
        name, other = r.choice(names), r.choice(names)
        size, at = r.choice([0, 1, 10, 100, 5000]), r.choice([0, 0, 5, 100, 4096, 9000])
        data = bytes([r.randrange(1, 256)]) * size
        try:
            what = r.randrange(28)
            if what < 5:
                flags = r.choice([os.O_RDWR, os.O_WRONLY, os.O_RDWR | os.O_APPEND, os.O_RDWR | os.O_DSYNC])
                flags |= os.O_NONBLOCK | r.choice([0, os.O_CREAT, os.O_CREAT | os.O_TRUNC, os.O_CREAT | os.O_EXCL, os.O_TRUNC])
                files.append(os.open(name, flags, r.choice([0o600, 0o644, 0o666])))
            elif what == 5: os.mkdir(name)
            elif what == 6: os.rmdir(name)
            elif what == 7: os.unlink(name)
            elif what == 8: os.rename(name, other)
            elif what == 9: os.link(name, other)
            elif what == 10: os.symlink(other, name)
            elif what == 11: os.chmod(name, r.choice([0o700, 0o755, 0o640]))
            elif what == 12: os.truncate(name, at)
            elif what == 13: libc.renameat2(-100, name.encode(), -100, other.encode(), r.choice([1, 2]))
            elif what == 14: files.append(os.open("d", os.O_RDWR | os.O_TMPFILE))
            elif what == 15: os.mkfifo(name)
            # Of this file system only: sync(2) would reach the disks of other tests.
            elif what == 16 and r.randrange(10) == 0:
                f = os.open(".", 0); libc.syncfs(f); os.close(f)
            elif files:
                f = r.choice(files)
                if what == 17: os.write(f, data)
                elif what == 18: os.pwrite(f, data, at)
                elif what == 19: os.writev(f, [data, b"and", data])
                elif what == 20: os.ftruncate(f, max(at, 9500))
                elif what == 21: os.lseek(f, at, 0)
                elif what == 22: os.fsync(f)
                elif what == 23: libc.fallocate(f, r.choice([0, 1, 3, 0x10]), ctypes.c_long(at), ctypes.c_long(size))
                elif what == 24: os.copy_file_range(f, r.choice(files), size, r.choice([0, 10]))
                elif what == 25:
                    # Of its own: who stores past the end of a file that somebody cuts off is killed.
                    own = os.open("mapped-%d-%d" % (os.getpid(), me), os.O_RDWR | os.O_CREAT); os.ftruncate(own, 9500)
                    m = mmap.mmap(own, 9500); m[at] = r.randrange(256); files.append(own)
                    if r.randrange(2): m.flush()
                    m.close()
                elif what == 26: files.append(os.dup(f))
                else: files.remove(f); os.close(f)
        except (OSError, ValueError): pass
def threads():
    all = [threading.Thread(target=work, args=(me + os.getpid() % 7,)) for me in range(int(sys.argv[2]))]
    [t.start() for t in all]; [t.join() for t in all]
os.makedirs("d/e")
children = []
for _ in range(int(sys.argv[3])):
    child = os.fork()
    if child == 0:
        threads(); os._exit(0)
    children.append(child)
threads()
[os.waitpid(child, 0) for child in children]
"#;

fn anything(seed: u32, threads: u32, children: u32) -> Recorded {
    let mut command = python_command(ANYTHING);
    command.args([seed, threads, children].map(|number| number.to_string()));
    record_command(|_| (), command)
}

#[test]
fn anything_by_one_thread() {
    for seed in 0..15 {
        println!("seed {seed}");
        anything(seed, 1, 0).assert_exact();
    }
}

#[test]
fn anything_by_threads_and_processes_at_once() {
    for seed in 0..10 {
        println!("seed {seed}");
        anything(seed, 3, 2).assert_exact();
    }
}

/// What a process that is killed was doing was done or not; either is recorded.
#[test]
fn anything_until_it_is_killed() {
    for seed in 0..15_u32 {
        let directory = tempfile::tempdir().expect("a directory");
        let options = NodeOptions {
            name: "node".into(),
            directory: Some(directory.path().into()),
            marks: false,
            ..NodeOptions::default()
        };
        let mut command = python_command(ANYTHING);
        command
            .args([seed, 3, 2].map(|number| number.to_string()))
            .current_dir(directory.path());
        let traced = start(options, command).expect("started");
        // It takes a while to start, which is all that would be killed on a busy machine.
        while directory.path().read_dir().expect("read").next().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        std::thread::sleep(std::time::Duration::from_millis(u64::from(seed * 7)));
        traced.kill();
        let node = traced.wait().expect("recorded");
        let status = node.status;
        let recorded = Recorded {
            trace: join(vec![node], about_now()),
            status,
            directory,
        };
        assert_eq!(
            recorded.difference(),
            None,
            "seed {seed}\n{}",
            recorded.text()
        );
    }
}

/// If the recorder did not know a call, these tests would say so.
#[test]
fn an_operation_that_is_left_out_is_noticed() {
    let mut noticed = 0;
    let mut recorded = anything(3, 2, 1);
    let all = recorded.trace.run.nodes[0].events.clone();
    for left_out in 0..all.len() {
        let what = &all[left_out].action;
        // Two files that are alike may have changed places, which leaves nothing that could be
        // missed.
        let unseen = matches!(
            what,
            trace::Action::File(
                FileOp::Create { .. }
                    | FileOp::Unlink { .. }
                    | FileOp::Rename {
                        exchange: false,
                        ..
                    }
                    | FileOp::Link { .. }
            )
        );
        if !unseen {
            continue;
        }
        let mut events = all.clone();
        events.remove(left_out);
        recorded.trace.run.nodes[0].events = events;
        let redone =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| recorded.difference()));
        assert!(!matches!(redone, Ok(None)), "{what:?} is not missed");
        noticed += 1;
    }
    assert!(noticed > 10);
}

#[test]
fn a_static_program() {
    let mut command = Command::new("sh");
    command
        .args(["-ec", "if command -v busybox >/dev/null; then busybox sh -c 'echo x >f; mv f g'; else echo x >g; fi"]);
    record_command(|_| (), command).assert_exact();
}
