//! What programs do to files is recorded exactly: done again, it gives the directory that is there.

mod support;

use std::process::Command;

use recorder::process::{Error, NodeOptions, record};
use support::{Recorded, python, python_command, record_command, shell};
use trace::{Action, FileId, FileOp, SyncScope};

fn count(recorded: &Recorded, of: impl Fn(&FileOp) -> bool) -> usize {
    recorded
        .operations()
        .into_iter()
        .filter(|op| of(op))
        .count()
}

fn marks(recorded: &Recorded) -> Vec<String> {
    let mark = |event: &trace::Event| match event.action {
        Action::Mark { line } => {
            Some(String::from_utf8_lossy(recorded.trace.bytes(line)).into_owned())
        }
        _ => None,
    };
    recorded.events().iter().filter_map(mark).collect()
}

#[test]
fn a_script_of_the_shell() {
    let recorded = shell(
        "umask 027; mkdir a a/b; echo one >a/x; echo two >>a/x; cp a/x a/b/y; mv a/b/y a/z; ln a/z a/hard; \
         ln -s ../nowhere a/soft; chmod 4711 a/z; rm a/x; truncate -s 10000 a/z; mkfifo a/pipe; rmdir a/b; \
         cat a/hard >copy; sync; echo done",
    );
    recorded.assert_exact();
    assert_eq!(marks(&recorded), ["done"]);
    assert_eq!(count(&recorded, |op| matches!(op, FileOp::SyncAll)), 1);
}

#[test]
fn what_was_there_at_the_beginning_is_known() {
    let prepare = |directory: &std::path::Path| {
        std::fs::create_dir(directory.join("sub")).expect("made");
        std::fs::write(directory.join("sub/old"), "0123456789").expect("written");
        std::fs::hard_link(directory.join("sub/old"), directory.join("other")).expect("linked");
        std::os::unix::fs::symlink("sub", directory.join("way")).expect("linked");
        let sparse = std::fs::File::create(directory.join("sparse")).expect("made");
        std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", 1 << 20).expect("written");
    };
    let mut command = Command::new("sh");
    command.args([
        "-ec",
        "echo x >>way/old; mv sub/old way/new; rm other; echo y >>$PWD/way/new; echo z >>sparse",
    ]);
    record_command(prepare, command).assert_exact();
}

#[test]
fn every_way_to_write() {
    let recorded = python(
        r#"
import os, ctypes
libc = ctypes.CDLL(None)
f = os.open("f", os.O_RDWR | os.O_CREAT, 0o600)
os.write(f, b"hello"); os.writev(f, [b" ", b"world", b"!"]); os.pwrite(f, b"J", 0); os.pwritev(f, [b"a", b"b"], 20)
os.lseek(f, 100, 0); os.write(f, b"far"); os.fsync(f); os.fdatasync(f)
os.pwritev(f, [b"dsync"], 200, os.RWF_DSYNC); os.pwritev(f, [b"sync"], 300, os.RWF_SYNC)
a = os.open("f", os.O_WRONLY | os.O_APPEND); os.write(a, b"appended"); os.pwrite(a, b"at the end all the same", 3)
os.ftruncate(f, 50); os.truncate("f", 9000); os.posix_fallocate(f, 0, 10000)
s = os.open("s", os.O_WRONLY | os.O_CREAT | os.O_DSYNC); os.write(s, b"x" * 5000)
t = os.open("t", os.O_WRONLY | os.O_CREAT | os.O_SYNC); os.write(t, b"y" * 5000)
c = os.open("c", os.O_RDWR | os.O_CREAT); os.copy_file_range(f, c, 4000, 0, 10); os.copy_file_range(f, c, 100, 0)
os.lseek(f, 0, 0); os.sendfile(c, f, 0, 70)
r, w = os.pipe(); os.write(w, b"through a pipe"); os.splice(r, c, 14, offset_dst=6000); os.write(w, b"more"); os.splice(r, c, 4)
d = os.dup(f); os.lseek(d, 7, 0); os.write(f, b"shared position")
os.dup2(f, 55); os.write(55, b"!!")
n = os.open(".", os.O_RDWR | os.O_TMPFILE, 0o640); os.write(n, b"no name yet"); assert libc.linkat(-100, b"/proc/self/fd/%d" % n, -100, b"named", 0x400) == 0
os.open("f", os.O_WRONLY | os.O_TRUNC)
os.open("f", os.O_RDONLY | os.O_CREAT)
try: os.open("f", os.O_CREAT | os.O_EXCL)
except FileExistsError: pass
g = os.open("gone", os.O_RDWR | os.O_CREAT); os.unlink("gone"); os.write(g, b"nobody reads it")
os.rename("s", "s"); os.link("s", "s2"); os.rename("s", "s2"); os.fchmod(f, 0o444); os.chmod(".", 0o711)
os.symlink("t", "to-t"); v = os.open("to-t", os.O_WRONLY | os.O_TRUNC | os.O_CREAT); os.write(v, b"through the link")
os.symlink("new", "to-new"); v = os.open(os.getcwd() + "/to-new", os.O_WRONLY | os.O_CREAT); os.write(v, b"made through the link")
dir = os.open(".", os.O_RDONLY); os.fsync(dir); os.mkdir("sub", dir_fd=dir); os.rename("t", "t2", src_dir_fd=dir, dst_dir_fd=dir)
"#,
    );
    recorded.assert_exact();
    assert_eq!(
        count(&recorded, |op| matches!(
            op,
            FileOp::Sync {
                scope: SyncScope::Data,
                ..
            }
        )),
        1
    );
    assert_eq!(
        count(&recorded, |op| matches!(
            op,
            FileOp::Sync {
                scope: SyncScope::File,
                ..
            }
        )),
        2
    );
    // What O_SYNC and O_DSYNC sync is what was written, and no more of the file.
    let ranges = recorded.operations().into_iter().filter_map(|op| match op {
        FileOp::Sync { scope, .. } => match scope {
            SyncScope::Range { offset, len } => Some((false, *offset, *len)),
            SyncScope::FileRange { offset, len } => Some((true, *offset, *len)),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(
        ranges.collect::<Vec<_>>(),
        [
            (false, 200, 5),
            (true, 300, 4),
            (false, 0, 5000),
            (true, 0, 5000)
        ]
    );
    let root = FileId::ROOT;
    assert_eq!(
        count(
            &recorded,
            |op| matches!(op, FileOp::Sync { file, .. } if *file == root)
        ),
        1
    );
}

#[test]
fn extended_attributes_by_descriptor_and_path_and_without_them_again() {
    let recorded = python(
        r#"
import os
f = os.open("f", os.O_RDWR | os.O_CREAT)
os.setxattr(f, "user.one", b"first"); os.setxattr("f", "user.two", b"x" * 300); os.setxattr(f, "user.one", b"second")
os.symlink("f", "link"); os.setxattr("link", "user.three", b""); os.removexattr(f, "user.two")
os.mkdir("d"); os.setxattr("d", "user.of-directory", b"d"); os.setxattr(".", "user.root", b"r")
try: os.setxattr(f, "user.one", b"again", os.XATTR_CREATE)
except FileExistsError: pass
"#,
    );
    recorded.assert_exact();
    assert_eq!(
        count(&recorded, |op| matches!(op, FileOp::SetXattr { .. })),
        7
    );
}

#[test]
fn attributes_that_were_there_before_and_access_lists_are_counted() {
    let prepare = |directory: &std::path::Path| {
        let file = directory.join("file");
        std::fs::write(&file, "").expect("written");
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(file, "user.old", b"here", flags).expect("set");
    };
    // One user more, and so a mask.
    let acl = "import os, struct; \
               os.setxattr('file', 'system.posix_acl_access', struct.pack('<I' + 5 * 'HHI', 2, \
               1, 6, 0xffffffff, 2, 4, 1, 4, 4, 0xffffffff, 16, 4, 0xffffffff, 32, 4, 0xffffffff))";
    let recorded = record_command(prepare, support::python_command(acl));
    assert!(recorded.status.success());
    let counted: Vec<_> = recorded.trace.about.not_recorded.keys().collect();
    let wanted = [
        "setxattr of system.posix_acl_access",
        "what set the extended attributes that were there before",
    ];
    assert_eq!(counted, wanted);
}

/// `sed -i` sets the mode of its new file so.
#[test]
fn an_access_list_that_says_no_more_than_a_mode_is_one() {
    let recorded = python(
        r#"
import os, struct
f = os.open("f", os.O_RDWR | os.O_CREAT, 0o600)
owner, group, others = (0x01, 6), (0x04, 4), (0x20, 4)
entries = b"".join(struct.pack("<HHI", tag, mode, 0xffffffff) for tag, mode in (owner, group, others))
os.setxattr(f, "system.posix_acl_access", struct.pack("<I", 2) + entries)
"#,
    );
    recorded.assert_exact();
    assert_eq!(
        count(&recorded, |op| matches!(
            op,
            FileOp::SetMode { mode: 0o644, .. }
        )),
        1
    );
}

#[test]
fn a_file_without_a_name_gets_one_and_is_the_same() {
    for how in [
        "b'/proc/self/fd/%d' % f, -100, b'g', 0x400",
        "b'/proc/thread-self/fd/%d' % f, -100, b'g', 0x400",
        "b'', -100, b'g', 0x1000",
    ] {
        let base = if how.starts_with("b''") { "f" } else { "-100" };
        let recorded = python(&format!(
            r#"
import os, ctypes
libc = ctypes.CDLL(None, use_errno=True)
old = os.open("old", os.O_RDWR | os.O_CREAT); os.write(old, b"x"); os.close(old); os.unlink("old")
f = os.open(".", os.O_RDWR | os.O_TMPFILE); os.write(f, b"whole"); os.fsync(f)
assert libc.linkat({base}, {how}) == 0, os.strerror(ctypes.get_errno())
os.write(f, b"more")
"#
        ));
        recorded.assert_exact();
        // What was synced is what has the name: it was not made anew with its bytes.
        let operations = recorded.operations();
        let linked = operations.iter().find_map(|op| match op {
            FileOp::Link { file, .. } => Some(*file),
            _ => None,
        });
        let synced = operations.iter().find_map(|op| match op {
            FileOp::Sync { file, .. } => Some(*file),
            _ => None,
        });
        assert!(linked.is_some() && linked == synced, "{}", recorded.text());
    }
}

#[test]
fn a_sync_of_another_file_system_is_none_and_of_one_around_the_directory_is() {
    let outside = tempfile::tempdir().expect("a directory");
    let recorded = python(&format!(
        r#"
import os, ctypes
libc = ctypes.CDLL(None)
open("f", "w").close(); open("{0}/other", "w").close()
for path in ["{0}/other", "{0}", "/dev/shm", "/proc"]:
    assert libc.syncfs(os.open(path, os.O_RDONLY)) == 0
"#,
        outside.path().display()
    ));
    recorded.assert_exact();
    assert_eq!(count(&recorded, |op| matches!(op, FileOp::SyncAll)), 0);
    let script = "import os, ctypes; open('f', 'w').close()\n\
                  for path in ['f', '.', '..']: ctypes.CDLL(None).syncfs(os.open(path, os.O_RDONLY))";
    let recorded = python(script);
    recorded.assert_exact();
    assert_eq!(count(&recorded, |op| matches!(op, FileOp::SyncAll)), 3);
}

#[test]
fn a_store_is_behind_the_last_call_before_which_its_page_was_unchanged() {
    let recorded = python(
        r#"
import os, mmap
f = os.open("f", os.O_RDWR | os.O_CREAT); os.ftruncate(f, 8192); m = mmap.mmap(f, 8192)
m[0:3] = b"old"; os.fsync(f)
log = os.open("log", os.O_RDWR | os.O_CREAT)
m[0:3] = b"new"; os.write(log, b"undo old"); os.fsync(log)
m[5000:5003] = b"too"; print("said", flush=True); m.flush()
"#,
    );
    recorded.assert_exact();
    let calls: Vec<_> = recorded.events().iter().map(|event| &*event.call).collect();
    let wanted = [
        "openat",
        "ftruncate",
        "store",
        "fsync",
        "openat",
        "store",
        "write",
        "fsync",
        "store",
        "write",
        "msync",
    ];
    assert_eq!(calls, wanted, "{}", recorded.text());
}

#[test]
fn holes_zeros_and_exchanges() {
    let recorded = python(
        r#"
import os, ctypes
libc = ctypes.CDLL(None, use_errno=True)
def fallocate(f, mode, at, len):
    assert libc.fallocate(f, mode, ctypes.c_long(at), ctypes.c_long(len)) == 0, os.strerror(ctypes.get_errno())
f = os.open("f", os.O_RDWR | os.O_CREAT); os.write(f, b"x" * 20000)
fallocate(f, 3, 4096, 5000); fallocate(f, 1, 0, 100000); fallocate(f, 3, 19000, 100000)
g = os.open("g", os.O_RDWR | os.O_CREAT); os.write(g, b"other")
assert libc.renameat2(-100, b"f", -100, b"g", 2) == 0
os.mkdir("d"); os.mkdir("e"); os.rename("d", "e")
assert libc.renameat2(-100, b"f", -100, b"e", 2) == 0
assert libc.renameat2(-100, b"f", -100, b"g", 1) == -1
"#,
    );
    recorded.assert_exact();
    assert_eq!(count(&recorded, |op| matches!(op, FileOp::Zero { .. })), 2);
    assert_eq!(
        count(&recorded, |op| matches!(
            op,
            FileOp::Rename { exchange: true, .. }
        )),
        2
    );
}

#[test]
fn descriptors_go_with_fork_exec_and_messages() {
    let recorded = python(
        r#"
import os, socket, sys, subprocess
f = os.open("f", os.O_RDWR | os.O_CREAT | os.O_APPEND)
os.write(f, b"parent\n")
if os.fork() == 0:
    os.write(f, b"child\n"); os._exit(0)
os.wait()
subprocess.run(["sh", "-c", "echo from the shell >&%d; echo in the background >&%d & wait" % (f, f)], pass_fds=[f], check=True)
a, b = socket.socketpair()
if os.fork() == 0:
    os.close(f)
    _, fds, _, _ = socket.recv_fds(b, 10, 1)
    os.write(fds[0], b"passed\n"); os._exit(0)
socket.send_fds(a, [b"x"], [f]); os.wait()
g = os.open("g", os.O_RDWR | os.O_CREAT)
socket.send_fds(a, [b"x"], [g]); os.close(g); os.unlink("g")
_, fds, _, _ = socket.recv_fds(b, 10, 1); os.write(fds[0], b"nowhere")
"#,
    );
    recorded.assert_exact();
}

#[test]
fn who_fills_a_pipe_does_not_keep_its_reader_from_writing() {
    // Whoever waits for ever dies of the alarm.
    let recorded = python(
        r#"
import os, signal
os.mkfifo("p"); size = 1 << 20
with open("f", "wb") as f: f.write(bytes(size))
if os.fork() == 0:
    r = os.open("p", os.O_RDONLY); g = os.open("g", os.O_WRONLY | os.O_CREAT)
    while data := os.read(r, 65536): os.write(g, data)
    os._exit(0)
signal.alarm(30)
w = os.open("p", os.O_WRONLY); f = os.open("f", os.O_RDONLY); done = 0
while done < size: done += os.sendfile(w, f, done, size - done)
os.close(w); os.wait()
"#,
    );
    recorded.assert_exact();
}

#[test]
fn threads_that_append_and_rename_at_once() {
    let recorded = python(
        r#"
import os, threading
f = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def work(me):
    for i in range(60):
        os.write(f, b"%d says %d\n" % (me, i))
        t = os.open("t%d" % me, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.write(t, bytes([me]) * (i * 37 % 200)); os.fsync(t); os.close(t)
        os.rename("t%d" % me, "shared")
threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
"#,
    );
    recorded.assert_exact();
    assert_eq!(
        count(&recorded, |op| matches!(op, FileOp::Rename { .. })),
        240
    );
}

/// Whoever reads the pipe has the line before the call that wrote it has returned.
#[test]
fn a_line_is_printed_before_what_others_do_until_its_call_returns() {
    let (mut out, into) = std::io::pipe().expect("a pipe");
    // It is full.
    rustix::io::ioctl_fionbio(&into, true).expect("set");
    while rustix::io::write(&into, &[b'.'; 1024]).is_ok() {}
    rustix::io::ioctl_fionbio(&into, false).expect("set");
    let mut command = python_command(
        r#"
import os, sys, threading, time
open("before", "w").close()
printing = threading.Thread(target=lambda: os.write(1, b"done\n"))
printing.start()
syscall = "/proc/self/task/%d/syscall" % printing.native_id
while open(syscall).read().split()[0] != sys.argv[1]: time.sleep(0.01)
time.sleep(0.1)
f = os.open("meanwhile", os.O_WRONLY | os.O_CREAT); os.fsync(f)
assert printing.is_alive()
os.mkdir(sys.argv[2]); printing.join()
open("after", "w").close()
"#,
    );
    let directory = tempfile::tempdir().expect("a directory");
    let synced = directory.path().join("synced");
    command.arg(libc::SYS_write.to_string()).arg(&synced);
    command.stdout(into);
    let reading = std::thread::spawn(move || {
        while !synced.exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        std::io::Read::read_to_end(&mut out, &mut Vec::new()).expect("read")
    });
    let recorded = record_command(|_| (), command);
    recorded.assert_exact();
    let of_event = |event: &trace::Event| match &event.action {
        Action::Mark { .. } => "line",
        action if action.is_sync() => "sync",
        _ => "operation",
    };
    let done: Vec<_> = recorded.events().iter().map(of_event).collect();
    assert_eq!(
        done,
        ["operation", "line", "operation", "sync", "operation"]
    );
    let ends = recorded.events().iter().map(|event| event.end_ns);
    assert!(ends.is_sorted());
    reading.join().expect("read to the end");
}

#[test]
fn an_inode_that_is_used_again_is_another_file() {
    let recorded = shell("for i in 1 2 3 4 5 6 7 8; do echo $i >f; rm f; done; echo last >f");
    recorded.assert_exact();
    let mut created: Vec<FileId> = Vec::new();
    for op in recorded.operations() {
        if let FileOp::Create { file, .. } = op {
            assert!(!created.contains(file));
            created.push(*file);
        }
    }
    assert_eq!(created.len(), 9);
}

#[test]
fn what_is_stored_to_a_mapping_is_written_before_the_sync() {
    let recorded = python(
        r#"
import os, mmap
f = os.open("f", os.O_RDWR | os.O_CREAT); os.ftruncate(f, 20000)
m = mmap.mmap(f, 20000)
m[10:15] = b"hello"; m[9000:9003] = b"far"; m.flush(0, 20000)
m[0:2] = b"ab"; os.fsync(f)
m[4096:4098] = b"cd"; os.close(f)
if os.fork() == 0:
    m[12000:12005] = b"child"; os._exit(0)
os.wait()
m[19000:19003] = b"end"; m.close()
p = mmap.mmap(os.open("f", os.O_RDWR), 20000, access=mmap.ACCESS_COPY); p[0:3] = b"own"
r = mmap.mmap(os.open("f", os.O_RDONLY), 20000, access=mmap.ACCESS_READ)
k = mmap.mmap(os.open("f", os.O_RDWR), 20000); k[100:104] = b"kept"
os.kill(os.getpid(), 15) if os.fork() == 0 else os.wait()
"#,
    );
    recorded.assert_exact();
    let operations = recorded.operations();
    let sync = operations.iter().position(|op| {
        matches!(
            op,
            FileOp::Sync {
                scope: SyncScope::Range { .. },
                ..
            }
        )
    });
    let before = &operations[..sync.expect("msync")];
    assert_eq!(
        before
            .iter()
            .filter(|op| matches!(op, FileOp::Write { .. }))
            .count(),
        2,
        "{}",
        recorded.text()
    );
}

#[test]
fn files_that_come_from_outside_and_leave() {
    let outside = tempfile::tempdir().expect("a directory");
    let recorded = shell(&format!(
        "o={}; mkdir -p $o/tree/sub; echo in >$o/tree/sub/f; ln $o/tree/sub/f $o/tree/g; mv $o/tree here; echo more >>here/sub/f; \
         echo out >leaves; mv leaves $o; echo no >$o/leaves; ln $o/leaves back; echo yes >back",
        outside.path().display()
    ));
    recorded.assert_exact();
}

#[test]
fn a_name_through_links_and_other_roots() {
    let recorded = shell(
        "mkdir -p a/b; ln -s $PWD/a abs; ln -s a/b rel; ln -s ../abs/b a/up; echo 1 >abs/b/f; echo 2 >rel/g; echo 3 >a/up/h; \
         cd rel; echo 4 >../i; mv g ../../g; ls /proc/self/fd/ >/dev/null; echo 5 >/proc/self/cwd/j; cd ..; rm -r a/b/f",
    );
    recorded.assert_exact();
}

#[test]
fn a_directory_that_has_another_path_inside_of_namespaces() {
    let elsewhere = tempfile::tempdir().expect("a directory");
    let recorded = shell(&format!(
        "exec unshare -m -p -n --fork --mount-proc sh -ec 'mount --bind . {0}; mount -t tmpfs none /mnt; cd /; \
         echo one >{0}/f; mkdir {0}/d; ln -s {0}/d {0}/way; echo two >{0}/way/g; cd {0}/way; mv g ../h; echo 3 >/mnt/not-ours'",
        elsewhere.path().display()
    ));
    recorded.assert_exact();
}

#[test]
fn an_ordinary_user_is_recorded_and_keeps_what_set_uid_gives_or_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    std::fs::create_dir(&path).expect("made");
    for path in [directory.path(), &path] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).expect("we are root");
    }
    let record_as_nobody = |script: &str| {
        let mut command = Command::new("sh");
        std::os::unix::process::CommandExt::uid(&mut command, 65534);
        command.args(["-ec", script]).current_dir(&path);
        record(
            NodeOptions {
                name: "node".into(),
                directory: Some(path.clone()),
                marks: true,
                ..NodeOptions::default()
            },
            command,
            &|_| false,
        )
    };
    let (trace, status) = record_as_nobody("echo x >f; mv f g; sync g")
        .expect("recorded")
        .expect("to its end");
    assert!(
        status.success() && trace.about.not_recorded.is_empty(),
        "{:?}",
        trace.about
    );
    assert_eq!(trace.run.nodes[0].events.len(), 4);
    let program = directory.path().join("program");
    std::fs::copy("/bin/true", &program).expect("copied");
    std::fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o4755),
    )
    .expect("changed");
    let error = record_as_nobody(&format!("echo first >h; {}", program.display()))
        .expect_err("it would not be root");
    assert!(
        matches!(error, Error::Trace(tracer::Error::SetUid(_))),
        "{error}"
    );
}

#[test]
fn reading_alone_is_nothing() {
    let recorded = shell("echo x >f; cat f >/dev/null; ls -l >/dev/null; test -e f; : >/dev/null");
    recorded.assert_exact();
    assert_eq!(recorded.operations().len(), 2, "{}", recorded.text());
}

#[test]
fn what_is_not_followed_is_counted() {
    let recorded = python(
        r#"
import os, ctypes, fcntl
f = os.open("f", os.O_RDWR | os.O_CREAT); os.write(f, b"x" * 8192)
os.chown("f", -1, -1)
os.chown("f", 12345, -1)
libc = ctypes.CDLL(None)
libc.syscall.restype = ctypes.c_long
assert libc.syscall(425, 8, 0) == -1
"#,
    );
    let counted: Vec<_> = recorded.trace.about.not_recorded.iter().collect();
    // By one call or the other, as the architecture has them.
    assert!(
        matches!(&*counted, [(call, 1)] if ["chown", "fchownat"].contains(&call.as_str())),
        "{counted:?}"
    );
    let refused: Vec<_> = recorded.trace.about.refused.into_iter().collect();
    assert_eq!(refused, [("io_uring_setup".to_owned(), 1)]);
}

#[test]
fn where_only_the_disk_is_looked_at_nothing_is_refused_and_what_is_made_is_counted() {
    let script = "import ctypes; libc = ctypes.CDLL(None); libc.syscall.restype = ctypes.c_long; \
                  assert libc.syscall(425, 8, ctypes.create_string_buffer(120)) >= 0";
    let directory = tempfile::tempdir().expect("a directory");
    let options = NodeOptions {
        name: "node".into(),
        directory: Some(directory.path().into()),
        disk_only: true,
        ..NodeOptions::default()
    };
    let recorded = record(options, support::python_command(script), &|_| false);
    let (trace, status) = recorded.expect("recorded").expect("to its end");
    assert!(status.success());
    assert!(trace.about.refused.is_empty());
    let counted: Vec<_> = trace.about.not_recorded.into_iter().collect();
    assert_eq!(counted, [("io_uring_setup".to_owned(), 1)]);
}

/// What was recorded of a script of the shell while the schedule was followed in another directory.
fn recorded_under(
    schedule: &str,
    script: &str,
    bystander: &std::path::Path,
) -> Result<trace_store::Trace, Error> {
    let directory = tempfile::tempdir().expect("a directory");
    let options = NodeOptions {
        name: "node".into(),
        directory: Some(directory.path().into()),
        schedule: schedule.parse().expect("a schedule"),
        bystander: Some(bystander.into()),
        ..NodeOptions::default()
    };
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(directory.path());
    let (trace, status) = record(options, command, &|_| false)?.expect("to its end");
    assert!(status.success());
    Ok(trace)
}

/// Four changes, and a sync.
const CHANGES: &str = "echo one >a; sync a; mv a b; truncate -s 10000 b";

#[test]
fn a_neighbour_syncs_after_each_change_and_is_not_recorded() {
    let words = |trace: &trace_store::Trace| {
        let nodes = trace.run.nodes.iter();
        let actions = nodes.flat_map(|node| node.events.iter().map(|event| &event.action));
        format!("{:?}", actions.collect::<Vec<_>>())
    };
    let beside = tempfile::tempdir().expect("a directory");
    let quiet = recorded_under("quiet", CHANGES, beside.path()).expect("recorded");
    assert_eq!(beside.path().read_dir().expect("read").count(), 0);
    let trace = recorded_under("neighbour", CHANGES, beside.path()).expect("recorded");
    let made: Vec<_> = beside.path().read_dir().expect("read").collect();
    let names = made
        .iter()
        .map(|entry| entry.as_ref().expect("read").file_name());
    // They are numbered, and the last one is left.
    assert_eq!(names.collect::<Vec<_>>(), ["4"]);
    assert!(trace.about.not_recorded.is_empty(), "{:?}", trace.about);
    assert_eq!(words(&trace), words(&quiet));
    assert_eq!((quiet.schedule(), trace.schedule()), ("quiet", "neighbour"));
}

#[test]
fn writeback_begins_with_writes_and_stores_to_mappings() {
    let python = "import mmap, os
file = os.open('a', os.O_RDWR | os.O_CREAT)
os.write(file, bytes(20000))
os.ftruncate(file, 40000)
memory = mmap.mmap(file, 40000)
for page in range(8):
    memory[4096 * page] = 7
    os.fsync(file)";
    for seed in 1..=4 {
        let beside = tempfile::tempdir().expect("a directory");
        let script = format!("exec /usr/bin/python3 -c \"{python}\"");
        let trace = recorded_under(&format!("writeback:{seed}"), &script, beside.path());
        let trace = trace.expect("recorded");
        assert!(trace.about.not_recorded.is_empty(), "{:?}", trace.about);
        // Creation, write and truncation are three stops: the rest are stores.
        let made: Vec<_> = beside.path().read_dir().expect("read").collect();
        let name = made[0].as_ref().expect("read").file_name();
        let number: u32 = name.to_str().expect("text").parse().expect("a number");
        assert!(number > 3, "seed {seed}: {number} syncs of the neighbour");
    }
}

#[test]
fn a_schedule_that_cannot_be_followed_is_no_recording() {
    let nowhere = std::path::Path::new("/nonexistent/bystander");
    let error = recorded_under("neighbour", CHANGES, nowhere).expect_err("it cannot");
    assert!(
        matches!(&error, Error::Bystander { schedule, .. } if schedule == "neighbour"),
        "{error}"
    );
    recorded_under("quiet", CHANGES, nowhere).expect("there is nothing to do");
}

#[test]
fn what_somebody_else_does_is_noticed() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = NodeOptions {
        name: "node".into(),
        directory: Some(directory.path().into()),
        marks: false,
        ..NodeOptions::default()
    };
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 1"]);
    let traced = recorder::process::start(options, command).expect("started");
    std::fs::write(directory.path().join("foreign"), "x").expect("written");
    let node = traced.wait().expect("recorded");
    assert_eq!(node.not_recorded.len(), 1, "{:?}", node.not_recorded);
}

#[test]
fn a_program_that_cannot_be_started_or_is_set_uid_is_refused() {
    let refused = |program: &str| {
        let options = NodeOptions {
            name: "node".into(),
            ..NodeOptions::default()
        };
        record(options, Command::new(program), &|_| false).expect_err("it is refused")
    };
    assert!(matches!(
        refused("/nonexistent/program"),
        Error::Trace(tracer::Error::Start { .. })
    ));
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("program");
    std::fs::copy("/bin/true", &program).expect("copied");
    std::fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o4755),
    )
    .expect("changed");
    let error = refused(program.to_str().expect("ours"));
    assert!(
        matches!(&error, Error::Trace(tracer::Error::SetUid(path)) if path.ends_with("program")),
        "{error}"
    );
    // The kernel reads the header, begins, and finds that the rest is not there. On aarch64 (6.1)
    // it finds that later: the program has started then, and dies.
    if cfg!(target_arch = "aarch64") {
        return;
    }
    let half = directory.path().join("half");
    let bytes = std::fs::read("/bin/true").expect("read");
    std::fs::write(&half, &bytes[..bytes.len() / 16]).expect("written");
    std::fs::set_permissions(&half, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("changed");
    let error = refused(half.to_str().expect("ours"));
    assert!(
        matches!(&error, Error::Trace(tracer::Error::Start { source, .. }) if source.to_string().contains("damaged")),
        "{error}"
    );
}

#[test]
fn a_recording_that_nobody_wants_any_more_ends_at_once_with_all_processes() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("numbers");
    let options = NodeOptions {
        name: "node".into(),
        ..NodeOptions::default()
    };
    let mut command = Command::new("sh");
    let script = format!(
        "trap '' INT TERM; sleep 600 & echo $$ $! > {0}.new; mv {0}.new {0}; sleep 600",
        path.display()
    );
    command.args(["-c", &script]);
    let began = std::time::Instant::now();
    let recorded = record(options, command, &|_| path.exists()).expect("recorded");
    assert!(recorded.is_none() && began.elapsed() < std::time::Duration::from_secs(300));
    for pid in std::fs::read_to_string(&path)
        .expect("read")
        .split_whitespace()
    {
        // Whose child it is by now may not have waited for it.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(
            stat.is_empty() || stat.contains(") Z "),
            "{pid} lives: {stat}"
        );
    }
}

#[test]
fn all_processes_end_with_the_recording() {
    let directory = tempfile::tempdir().expect("a directory");
    let begun = directory.path().join("begun");
    let options = NodeOptions {
        name: "node".into(),
        ..NodeOptions::default()
    };
    let mut command = Command::new("sh");
    let last = format!("setsid sh -c 'touch {}; exec sleep 1000'", begun.display());
    command.args(["-c", &format!("sleep 1000 & sleep 1000 & ({last}) & wait")]);
    let traced = recorder::process::start(options, command).expect("started");
    let started = std::time::Instant::now();
    while !begun.exists() {
        assert!(started.elapsed().as_secs() < 300, "it does not begin");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    traced.kill();
    let node = traced.wait().expect("recorded");
    // Those who sleep were not waited for.
    assert!(!node.status.success() && started.elapsed().as_secs() < 900);
}

/// A process that is killed while it makes another one does not tell that it did.
#[test]
fn those_who_lose_their_parent_before_it_tells_of_them_end_as_well() {
    let directory = tempfile::tempdir().expect("a directory");
    for round in 0..40 {
        let path = directory.path().join(round.to_string());
        let options = NodeOptions {
            name: "node".into(),
            ..NodeOptions::default()
        };
        let mut command = Command::new("sh");
        let forks = "while :; do (:) & (:) & (:) & wait; done";
        command.args([
            "-c",
            &format!(
                "({forks}) & ({forks}) & (:) & touch {}; {forks}",
                path.display()
            ),
        ]);
        let recorded = record(options, command, &|_| path.exists()).expect("recorded");
        assert!(recorded.is_none());
    }
}
