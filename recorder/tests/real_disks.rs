//! Workloads on real file systems: what they must not reach, and what they must not break. They
//! mount file systems, so they need root, and fail without it.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use block_dev::{Base, BlockLog, Completion, Image};
use local_fs::{Scratch, Variant, enter_mount_namespace, find, format};
use recorder::{Error, Outcome, Recorded, Recorder};
use workloads::{DeviceKind, FallocMode, Op, RenameFlag, Step, Target, Workload, WriteSync};

const FILE_SYSTEMS: [&str; 3] = ["ext4", "xfs", "btrfs"];

/// Gives `work` a recorder and the directory that its disk is mounted in, in a mount namespace
/// of its own.
fn with_recorder(file_system: &str, work: impl FnOnce(&mut Recorder, &Path) + Send) {
    with_recorder_on(Completion::AtOnce, file_system, work);
}

fn with_recorder_on(
    completion: Completion,
    file_system: &str,
    work: impl FnOnce(&mut Recorder, &Path) + Send,
) {
    with_base(completion, file_system, |recorder, directory, _| {
        work(recorder, directory);
    });
}

fn with_base(
    completion: Completion,
    file_system: &str,
    work: impl FnOnce(&mut Recorder, &Path, &Arc<Base>) + Send,
) {
    assert!(
        nix::unistd::geteuid().is_root(),
        "this test mounts file systems: run `make test`, or cargo test as root"
    );
    let in_namespace = || {
        enter_mount_namespace().expect("root makes mount namespaces");
        let scratch = Scratch::new().expect("a directory");
        let variant = Variant::plain(find(file_system).expect("it is known"));
        let file = format(&variant, &scratch.path().join("base")).expect("formatted");
        let base = Arc::new(Base::from_file(&file).expect("read"));
        let directory = scratch.directory("recorder").expect("a directory");
        let mut recorder =
            Recorder::new(&variant, &base, completion, &directory).expect("a recorder");
        work(&mut recorder, &directory, &base);
    };
    std::thread::scope(|scope| {
        scope
            .spawn(in_namespace)
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn workload(ops: Vec<Op>) -> Workload {
    Workload {
        name: "test".into(),
        run: ops.into_iter().map(Step::Op).collect(),
        ..Workload::default()
    }
}

fn parse(text: &str) -> Workload {
    workloads::parse(text, "test").expect("it is one").remove(0)
}

fn record(recorder: &mut Recorder, text: &str) -> Recorded {
    recorder.record(&parse(text)).expect("recorded")
}

fn all_done(trace: &Recorded) -> bool {
    trace
        .outcomes
        .iter()
        .all(|outcome| *outcome == Outcome::Done)
}

fn refused(errno: i32) -> Outcome {
    Outcome::Refused(errno)
}

/// A file outside, and all that can be told of it and its directory.
struct Outside(PathBuf);

impl Outside {
    fn new(directory: PathBuf) -> Self {
        std::fs::create_dir(&directory).expect("made");
        std::fs::create_dir(directory.join("empty")).expect("made");
        std::fs::write(directory.join("victim"), "untouched").expect("written");
        std::fs::set_permissions(directory.join("victim"), PermissionsExt::from_mode(0o640))
            .expect("changed");
        Self(directory)
    }

    fn state(&self) -> Vec<(OsString, u32, u32, u64, i64)> {
        let describe = |path: &Path| {
            let metadata = path.symlink_metadata().expect("it is there");
            let changed = metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec();
            (
                path.as_os_str().into(),
                metadata.mode(),
                metadata.uid(),
                metadata.nlink(),
                changed,
            )
        };
        let inside = std::fs::read_dir(&self.0)
            .expect("read")
            .map(|entry| describe(&entry.expect("read").path()));
        let mut all: Vec<_> = inside.chain([describe(&self.0)]).collect();
        all.sort();
        all
    }
}

/// Everything that can be done to a path.
#[expect(clippy::too_many_lines, reason = "a table: an operation a row")]
fn everything(path: &str) -> Vec<Op> {
    let path = path.to_owned();
    let target = Target::Path(path.clone());
    let own = || "own".to_owned();
    vec![
        Op::Chmod {
            target: target.clone(),
            mode: 0o777,
        },
        Op::Chown {
            target: target.clone(),
            uid: 77,
            gid: 77,
        },
        Op::SetXattr {
            target: target.clone(),
            name: "trusted.x".into(),
            value: "v".into(),
        },
        Op::RemoveXattr {
            target: target.clone(),
            name: "trusted.x".into(),
        },
        Op::Write {
            target: target.clone(),
            offset: 0,
            length: 10,
            sync: WriteSync::None,
        },
        Op::Append {
            target: target.clone(),
            length: 10,
        },
        Op::MmapWrite {
            target: target.clone(),
            offset: 0,
            length: 10,
        },
        Op::DirectWrite {
            target: target.clone(),
            offset: 0,
            length: 4096,
            sync: WriteSync::None,
        },
        Op::Truncate {
            target: target.clone(),
            size: 1,
        },
        Op::Falloc {
            target: target.clone(),
            mode: FallocMode::Allocate,
            offset: 0,
            length: 4096,
        },
        Op::Fsync {
            target: target.clone(),
        },
        Op::Open {
            path: path.clone(),
            handle: "handle".into(),
        },
        Op::Tmpfile {
            dir: path.clone(),
            handle: "tmpfile".into(),
            mode: 0o600,
        },
        Op::Creat {
            path: path.clone(),
            mode: 0o600,
        },
        Op::Mkdir {
            path: path.clone(),
            mode: 0o700,
        },
        Op::Mkfifo {
            path: path.clone(),
            mode: 0o600,
        },
        Op::Mknod {
            path: path.clone(),
            kind: DeviceKind::Char,
            major: 1,
            minor: 3,
        },
        Op::Symlink {
            target: "x".into(),
            path: path.clone(),
        },
        Op::Link {
            source: Target::Path(path.clone()),
            dest: "new".into(),
        },
        Op::Link {
            source: Target::Path(own()),
            dest: path.clone(),
        },
        Op::Rename {
            source: path.clone(),
            dest: "new".into(),
            flag: RenameFlag::Replace,
        },
        Op::Rename {
            source: own(),
            dest: path.clone(),
            flag: RenameFlag::Replace,
        },
        Op::Unlink { path: path.clone() },
        Op::Rmdir { path: path.clone() },
        Op::Remove { path },
    ]
}

#[test]
fn a_workload_does_not_reach_beyond_its_disk() {
    for file_system in FILE_SYSTEMS {
        with_recorder(file_system, |recorder, directory| {
            let outside = Outside::new(directory.join("outside"));
            let before = outside.state();
            let absolute = outside.0.to_str().expect("a name of ours").to_owned();
            let start = [
                Op::Creat {
                    path: "own".into(),
                    mode: 0o644,
                },
                Op::Symlink {
                    target: absolute.clone(),
                    path: "link".into(),
                },
                Op::Symlink {
                    target: format!("{absolute}/victim"),
                    path: "file".into(),
                },
                Op::Symlink {
                    target: "../outside".into(),
                    path: "up".into(),
                },
                Op::Symlink {
                    target: "/proc/self/cwd".into(),
                    path: "magic".into(),
                },
            ];
            let paths = [
                "link/victim",
                "link/new",
                "link/empty",
                "link/empty/new",
                "up/victim",
                "up/empty",
                "magic/new",
            ];
            let leading_out = [
                "..",
                "../outside/victim",
                "../outside/new",
                "../outside/empty",
            ];
            let mut beyond: Vec<Op> = paths
                .iter()
                .chain(&leading_out)
                .flat_map(|path| everything(path))
                .collect();
            beyond.extend(everything(&format!("{absolute}/victim")));
            beyond.extend(everything(&format!("{absolute}/new")));
            let steps = start.iter().chain(&beyond).cloned().collect();
            let trace = recorder.record(&workload(steps)).expect("recorded");
            assert!(
                trace.outcomes[..start.len()]
                    .iter()
                    .all(|outcome| *outcome == Outcome::Done)
            );
            for (op, outcome) in beyond.iter().zip(&trace.outcomes[start.len()..]) {
                assert_ne!(*outcome, Outcome::Done, "{file_system}: {op}");
            }
            // Nor does what goes by the link itself.
            let through: Vec<Op> = ["link", "file", "up"]
                .iter()
                .flat_map(|path| everything(path))
                .collect();
            recorder
                .record(&workload(start.into_iter().chain(through).collect()))
                .expect("recorded");
            assert_eq!(outside.state(), before, "{file_system}");
            assert_eq!(
                std::fs::read_to_string(outside.0.join("victim")).expect("read"),
                "untouched"
            );
        });
    }
}

#[test]
fn a_symbolic_link_is_not_followed_but_can_be_worked_on() {
    for file_system in FILE_SYSTEMS {
        with_recorder(file_system, |recorder, _| {
            let text = "creat own; mkdir d; symlink own l; symlink d ld; write l 0 10; chmod l 600; creat ld/x; \
                        chown l 5 6; link l l2; rename l l3; unlink l3; remove l2; rmdir d; sync";
            let trace = record(recorder, text);
            let mut expected = vec![Outcome::Done; 14];
            expected[4] = refused(libc::ELOOP);
            expected[5] = refused(libc::EOPNOTSUPP);
            expected[6] = refused(libc::ELOOP);
            assert_eq!(trace.outcomes, expected, "{file_system}");
        });
    }
}

#[test]
fn a_device_can_be_made_but_not_opened() {
    for file_system in FILE_SYSTEMS {
        with_recorder(file_system, |recorder, _| {
            // /dev/null, and the first loop device.
            let text = "mknod c c 1 3; mknod b b 7 0; chmod c 600; chown b 5 6; write c 0 10; write b 0 10; fsync b; sync";
            let trace = record(recorder, text);
            let mut expected = vec![Outcome::Done; 8];
            expected[4..7].fill(refused(libc::EACCES));
            assert_eq!(trace.outcomes, expected, "{file_system}");
        });
    }
}

#[test]
fn what_is_beneath_the_root_can_be_worked_on_and_so_can_the_root() {
    for file_system in FILE_SYSTEMS {
        with_recorder(file_system, |recorder, _| {
            let text = "chmod . 700; chown . 5 6; setxattr . user.a b; removexattr . user.a; fsync .; tmpfile . as @t; \
                        link @t t; mkdir a; mkdir a/b; creat a/b/f; write a/b/f 0 8K; chmod a/b/f 600; chown a/b/f 5 6; \
                        link a/b/f g; rename g a/g; symlink x a/s; mkfifo a/p; chmod a/p 600; mknod a/d c 0 0; \
                        tmpfile a/b as @u; link @u a/u; unlink a/s; remove a/p; mkdir a/e; rmdir a/e; fsync a/b; \
                        mmapwrite a/b/f 4K 8K; msync a/b/f 0 12K; dwrite a/b/f 0 4K; open a/b as @d; fsync @d; sync";
            let trace = record(recorder, text);
            assert!(all_done(&trace), "{file_system}: {:?}", trace.outcomes);
            assert_eq!((trace.root_mode, trace.root_owner), (0o755, (0, 0)));
        });
    }
}

#[test]
fn a_length_of_zero_is_no_trouble() {
    with_recorder("ext4", |recorder, _| {
        let text = "creat foo; write foo 0 8K; mmapwrite foo 0 0; mmapwrite foo 4096 0; mmapwrite foo 100 0; \
                    mmapwrite foo 1M 0; msync foo 0 0; msync foo 4096 0; msync foo 100 0; msync foo 1M 0";
        let trace = record(recorder, text);
        assert!(all_done(&trace), "{:?}", trace.outcomes);
        let live = trace.crash_points[0]
            .live
            .as_ref()
            .expect("it was looked at");
        assert_eq!(
            format!("{live:?}").matches("size_bytes: 8192").count(),
            1,
            "{live:?}"
        );
    });
}

#[test]
fn a_full_disk_refuses_a_store_and_does_not_kill() {
    with_recorder("ext4", |recorder, _| {
        let trace = record(recorder, "creat foo; mmapwrite foo 0 17M; sync");
        assert_eq!(
            trace.outcomes,
            [Outcome::Done, refused(libc::EIO), Outcome::Done]
        );
        let trace = record(
            recorder,
            "creat foo; mmapwrite foo 100 64K; msync foo 0 64K",
        );
        assert!(all_done(&trace));
        let live = trace.crash_points[0]
            .live
            .as_ref()
            .expect("it was looked at");
        assert_eq!(
            format!("{live:?}").matches("size_bytes: 65636").count(),
            1,
            "{live:?}"
        );
    });
}

/// Only ends what would hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// Keeps open the first file that it finds at `path`, unless it is told to end before.
fn hold(path: &Path, end: &AtomicBool) -> Option<File> {
    while !end.load(Ordering::Relaxed) {
        match File::open(path) {
            Ok(file) => return Some(file),
            Err(_) => std::thread::yield_now(),
        }
    }
    None
}

/// Records until the file system of a recording stays, since somebody has a file of it open. On a
/// busy machine many a recording ends before they have.
fn record_until_it_stays(recorder: &mut Recorder, file: &Path) -> (Error, Option<File>) {
    let workload = parse(&("creat foo; sync".to_owned() + &"; fsync .; sync".repeat(80)));
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| hold(file, &end));
        let deadline = Instant::now() + PATIENCE;
        let error = loop {
            match recorder.record(&workload) {
                Ok(trace) if Instant::now() < deadline => {
                    assert!(all_done(&trace), "{:?}", trace.outcomes);
                }
                Ok(_) => break None,
                Err(error) => break Some(error),
            }
            recorder.finish_unmounting();
        };
        end.store(true, Ordering::Relaxed);
        (
            error.expect("a file system that is in use was unmounted"),
            holder.join().expect("no panic"),
        )
    })
}

#[test]
fn a_disk_whose_file_system_stays_is_given_up() {
    for file_system in ["ext4", "btrfs"] {
        with_recorder(file_system, |recorder, directory| {
            let first = recorder.device_name().to_owned();
            let (error, held) = record_until_it_stays(recorder, &directory.join("recorded/foo"));
            assert!(matches!(error, Error::Unmount(_)), "{file_system}: {error}");
            assert!(
                error
                    .to_string()
                    .starts_with("unmount the last recording: "),
                "{error}"
            );
            assert!(held.is_some(), "{file_system}: nobody used it");
            assert_ne!(recorder.device_name(), first);
            let again = parse("creat foo; write foo 0 8K; fsync foo");
            if file_system == "btrfs" {
                // Some kernels refuse a copy of what is still mounted.
                drop(held);
                let deadline = Instant::now() + PATIENCE;
                while let Err(error) = recorder.record(&again) {
                    assert!(Instant::now() < deadline, "{error}");
                }
            } else {
                let traced = recorder.recognises_fua();
                let trace = recorder.record(&again).expect("recorded");
                let fua = |entry: &block_dev::Entry| {
                    matches!(entry.kind, block_dev::Kind::Write { fua: true, .. })
                };
                assert_eq!(trace.log.entries().iter().any(fua), traced);
                drop(held);
            }
            assert!(all_done(&recorder.record(&again).expect("recorded")));
        });
    }
}

#[test]
fn in_a_commit_fua_is_told_from_the_flush_that_stands_for_it() {
    use block_dev::Kind;
    // xfs sends its log with PREFLUSH and FUA, ext4 its commit block, btrfs its superblock.
    for file_system in FILE_SYSTEMS {
        with_recorder(file_system, |recorder, _| {
            assert!(recorder.recognises_fua(), "this kernel has no tracefs");
            let trace = record(recorder, "creat foo; write foo 0 4K; fsync foo");
            let end = trace.crash_points[0].log_position;
            let kinds: Vec<Kind> = trace.log.entries()[..end]
                .iter()
                .map(|entry| entry.kind)
                .collect();
            let fua = kinds
                .iter()
                .rposition(|kind| matches!(kind, Kind::Write { fua: true, .. }));
            let fua = fua.unwrap_or_else(|| panic!("{file_system}: no FUA write in {kinds:?}"));
            assert!(
                kinds[fua..].contains(&Kind::FuaFlush),
                "{file_system}: {:?}",
                &kinds[fua..]
            );
            assert!(
                kinds[..fua].contains(&Kind::Flush),
                "{file_system}: {:?}",
                &kinds[..fua]
            );
        });
    }
}

#[test]
fn on_a_lazy_disk_answers_come_late_and_everything_goes_on() {
    for file_system in FILE_SYSTEMS {
        with_recorder_on(Completion::Lazy { seed: 1 }, file_system, |recorder, _| {
            let text = "creat foo; write foo 0 64K; fsync foo; mkdir A; creat A/bar; fsync A; sync";
            // On a busy machine the next request may take longer to come than an answer is held
            // back.
            let came_late = (0..20).any(|_| {
                let trace = record(recorder, text);
                assert!(all_done(&trace), "{file_system}: {:?}", trace.outcomes);
                let mut entries = trace.log.entries().iter().enumerate();
                entries.any(|(place, entry)| entry.completed > place + 1)
            });
            assert!(came_late, "{file_system}: nothing came late");
        });
    }
}

/// What is data decides only what is lost first. Were nothing known for data, nobody would notice.
#[test]
fn what_a_workload_wrote_to_files_is_known_on_the_disk() {
    for file_system in FILE_SYSTEMS {
        with_recorder(file_system, |recorder, _| {
            let mut data_bytes = |text| {
                let trace = record(recorder, text);
                assert!(all_done(&trace), "{file_system}: {:?}", trace.outcomes);
                let run = trace.durable_position..trace.log.len();
                let writes = run.filter(|place| !trace.log.data(*place).is_empty());
                let (data, metadata): (Vec<_>, Vec<_>) =
                    writes.partition(|place| workloads::pattern::begins(trace.log.data(*place)));
                assert!(!metadata.is_empty(), "{file_system}: {text}");
                data.iter()
                    .map(|place| trace.log.data(*place).len())
                    .sum::<usize>()
            };
            assert_eq!(
                data_bytes("creat foo; fsync foo; mkdir A; rename foo A/foo; sync"),
                0,
                "{file_system}"
            );
            for text in [
                "creat foo; write foo 0 16K; fsync foo",
                "setup; creat foo; write foo 0 32K; run; write foo 8K 16K; mkdir A; sync",
                "creat foo; dwrite foo 0 16K; fsync foo",
            ] {
                assert_eq!(data_bytes(text), 16 << 10, "{file_system}: {text}");
            }
        });
    }
}

/// What a disk holds that kept all of a log.
fn whole(mut image: Image, log: &BlockLog) -> Image {
    (0..log.len()).for_each(|place| log.apply(place, &mut image));
    image
}

#[test]
fn a_recovery_is_recorded_with_what_the_mount_left_in_memory() {
    for file_system in FILE_SYSTEMS {
        with_base(Completion::AtOnce, file_system, |recorder, _, base| {
            // What has no name any more is removed by whoever recovers. btrfs writes that with its
            // next commit.
            let text = "setup; creat foo; write foo 0 64K; run; open foo as @h; unlink foo; creat bar; sync";
            let run = record(recorder, text);
            let crashed = whole(Image::new(Arc::clone(base)), &run.log);
            let log = recorder.record_recovery(&crashed).expect("recovered");
            let written = |log: &BlockLog| -> usize {
                (0..log.len()).map(|place| log.data(place).len()).sum()
            };
            assert!(written(&log) > 0, "{file_system}");
            // The next recovery has less to do, and the next run begins on the base again.
            let recovered = whole(crashed, &log);
            let next = recorder.record_recovery(&recovered).expect("recovered");
            assert!(written(&next) < written(&log), "{file_system}");
            assert!(all_done(&record(recorder, text)), "{file_system}");
        });
    }
}

#[test]
fn what_cannot_be_mounted_has_no_recovery_and_the_next_run_is_as_ever() {
    with_base(Completion::AtOnce, "ext4", |recorder, _, base| {
        let mut nothing = Image::new(Arc::clone(base));
        nothing.discard(0, base.size_bytes());
        let refused = recorder.record_recovery(&nothing).expect_err("no ext4");
        let Error::FileSystem(error) = refused else {
            panic!("{refused}");
        };
        assert!(error.unmountable().is_some(), "{error}");
        assert!(all_done(&record(recorder, "creat foo; fsync foo")));
    });
}
