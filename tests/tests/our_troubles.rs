//! What is not the file system's fault is no finding: what the machine has no room for, what a full
//! disk refuses, what somebody else holds, what is too much to read, and what the workload itself
//! did. Needs root.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use block_dev::{Base, FrontEnd, MemfdDisk};
use checker::write_check;
use end_to_end::{FILE_SYSTEMS, Laboratory, in_own_namespace, require_root};
use local_fs::{
    Error, InodeKind, Mounted, Tree, Variant, WalkOptions, find, format, repair, start_fsck, walk,
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use pace_rules::disk::Disk;
use replayer::{Engine, Import, Verdict, WorkloadResult};
use tempfile::TempDir;
use workloads::Workload;

/// What is mounted in a temporary directory, which cannot be removed as long as it is.
struct MountedHere(PathBuf);

impl MountedHere {
    fn new(file_system: &str, path: PathBuf, options: &str) -> Self {
        let (name, flags) = (Some(file_system), MsFlags::empty());
        mount(name, &path, name, flags, Some(options))
            .unwrap_or_else(|why| panic!("mount {file_system} with {options}: {why}"));
        Self(path)
    }
}

impl Drop for MountedHere {
    fn drop(&mut self) {
        // A file in it may still be open.
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

fn debugfs(request: &str, image: &Path) -> String {
    let output = Command::new("debugfs")
        .args(["-w", "-R", request])
        .arg(image)
        .output()
        .expect("it starts");
    String::from_utf8(output.stdout).expect("text")
}

/// An image of ext2 with a directory that has no name, and with no /lost+found to put it in. The
/// blocks of that were never written.
fn damaged(directory: &Path) -> PathBuf {
    let image = directory.join("image");
    let file = File::create(&image).expect("created");
    file.set_len(16 << 20).expect("made longer");
    let made = Command::new("mkfs.ext2")
        .args(["-q", "-F", "-b", "4096", "-N", "512"])
        .arg(&image)
        .status();
    assert!(made.expect("it starts").success());
    debugfs("mkdir foo", &image);
    let blocks = debugfs("blocks lost+found", &image);
    debugfs("unlink foo", &image);
    debugfs("rmdir lost+found", &image);
    for block in blocks.split_whitespace() {
        let block: u64 = block.parse().expect("a number");
        file.write_all_at(&[0; 4096], block * 4096)
            .expect("written");
    }
    image
}

#[test]
fn a_repair_for_which_there_is_no_room_says_nothing_of_the_disk() {
    require_root();
    in_own_namespace(|| {
        let (directory, small) = (TempDir::new().expect("one"), TempDir::new().expect("one"));
        let image = damaged(directory.path());
        let ext2 = Variant::parse_list("ext2").expect("known").remove(0);
        let _mounted = MountedHere::new("tmpfs", small.path().into(), "size=1M");
        let copy = small.path().join("image");
        let copied = Command::new("cp")
            .arg("--sparse=always")
            .args([&image, &copy])
            .status();
        assert!(copied.expect("it starts").success());
        let filler = File::create(small.path().join("filler")).expect("created");
        while filler
            .write_at(&[1; 4096], filler.metadata().expect("there").len())
            .is_ok()
        {}

        let repaired = repair(&ext2, &copy);
        assert!(
            matches!(repaired, Err(Error::Killed { .. })),
            "{repaired:?}"
        );
        // It is found, and repaired, where there is room.
        let check = start_fsck(&ext2, &image).expect("started").expect("one");
        assert!(!check.finish().expect("it can tell").clean);
        repair(&ext2, &image).expect("it runs").expect("it repairs");
    });
}

/// A file system with so many inodes left, in which to delete a name takes one: of what is below
/// an overlay a device is left above it.
struct Full {
    /// Unmounted in this order, before the directory goes.
    mounted: MountedHere,
    _small: MountedHere,
    _directory: TempDir,
}

impl Full {
    fn new(below: &[&str], inodes_left: usize) -> Self {
        let directory = TempDir::new().expect("one");
        let path = |name: &str| directory.path().join(name);
        for name in ["lower", "small", "mounted"] {
            std::fs::create_dir(path(name)).expect("made");
        }
        for name in below {
            let file = path("lower").join(name);
            std::fs::create_dir_all(file.parent().expect("it has one")).expect("made");
            std::fs::write(file, "").expect("written");
        }
        let small = MountedHere::new("tmpfs", path("small"), "nr_inodes=100");
        for name in ["upper", "work", "filler"] {
            std::fs::create_dir(path("small").join(name)).expect("made");
        }
        let layers =
            ["lower", "small/upper", "small/work"].map(|name| path(name).display().to_string());
        let [lower, upper, work] = &layers;
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let mounted = MountedHere::new("overlay", path("mounted"), &options);
        fill(&path("small/filler"), inodes_left);
        Self {
            mounted,
            _small: small,
            _directory: directory,
        }
    }

    fn tree(&self) -> Tree {
        let options = WalkOptions {
            skip: &[],
            skip_attributes: &[],
        };
        walk(&self.mounted.0, options)
    }

    fn write_check(&self, tree: &Tree) -> Option<checker::Finding> {
        let root = File::open(&self.mounted.0).expect("opened");
        write_check(root, tree, &[]).expect("the machine has room")
    }
}

/// Makes files until there is no inode left, and deletes so many.
fn fill(directory: &Path, inodes_left: usize) {
    let fillers = (0..).map(|number| directory.join(format!("{number}")));
    let filled: Vec<_> = fillers
        .take_while(|filler| std::fs::write(filler, "").is_ok())
        .collect();
    for filler in filled.iter().take(inodes_left) {
        std::fs::remove_file(filler).expect("removed");
    }
}

#[test]
fn what_a_full_disk_does_not_delete_is_no_finding() {
    require_root();
    in_own_namespace(|| {
        // Nothing can be made, and the file cannot be deleted.
        let full = Full::new(&["foo"], 0);
        let tree = full.tree();
        assert!(tree.lookup("foo").is_some() && tree.errors.is_empty());
        assert_eq!(full.write_check(&tree), None);

        // A file can be made, and then not be deleted: its directory is not empty.
        let name = "A/.crashpoint-moved";
        let full = Full::new(&[name], 2);
        let mut tree = full.tree();
        let directory = tree.lookup("A").expect("it is there");
        let inode = tree.inodes.get_mut(&directory).expect("it is there");
        inode.kind = InodeKind::Directory(BTreeMap::new());
        assert_eq!(full.write_check(&tree), None);

        // With room for all of that it is emptied.
        let roomy = Full::new(&["foo", "A/bar"], 50);
        assert_eq!(roomy.write_check(&roomy.tree()), None);
        assert_eq!(
            std::fs::read_dir(&roomy.mounted.0).expect("read").count(),
            0
        );
        // And what is still there that was not seen is a finding.
        let roomy = Full::new(&["A/bar"], 50);
        let mut tree = roomy.tree();
        let directory = tree.lookup("A").expect("it is there");
        let inode = tree.inodes.get_mut(&directory).expect("it is there");
        inode.kind = InodeKind::Directory(BTreeMap::new());
        let finding = roomy.write_check(&tree).expect("it is not empty");
        assert!(finding.what.contains("Directory not empty"), "{finding:?}");
    });
}

/// Somebody holds a file of a recovered state, which keeps it mounted. That is told, and says nothing
/// of the file system.
#[track_caller]
fn stays_mounted(file_system: &str) {
    require_root();
    let text = "creat foo; fsync foo; creat bar; fsync bar; creat baz; fsync baz";
    let workload = workloads::parse(text, "held")
        .expect("a workload")
        .remove(0);
    let held = Arc::new(Mutex::new(None));
    let hold = Arc::clone(&held);
    let tamper = move |path: &Path| {
        let mut held = hold.lock().expect("nobody panics");
        held.get_or_insert_with(|| File::open(path).expect("opened"));
    };
    let result = in_own_namespace(|| Laboratory::new(file_system).tamper(&workload, tamper));
    drop(held);
    assert_eq!(result.verdict(), Verdict::Inconclusive, "{result:?}");
    let why = result.inconclusive.unwrap_or_default();
    assert!(why.starts_with("unmount after recovery: "), "{why}");
}

#[test]
fn a_state_that_somebody_keeps_mounted_accuses_nobody() {
    stays_mounted("ext4");
}

#[test]
fn nor_is_one_of_xfs() {
    stays_mounted("xfs");
}

/// What comes of an empty log of a disk with ext4 on which this was done before.
fn import_of(fill: impl FnOnce(&Path) + Send) -> WorkloadResult {
    require_root();
    in_own_namespace(|| {
        let directory = TempDir::new().expect("one");
        let path = |name: &str| directory.path().join(name);
        let ext4 = Variant {
            size_bytes: 160 << 20,
            ..Variant::plain(find("ext4").expect("known"))
        };
        format(&ext4, &path("base")).expect("formatted");
        let base = || {
            let file = File::open(path("base")).expect("opened");
            Arc::new(Base::from_file(&file).expect("read"))
        };
        let disk = MemfdDisk::new(&base()).expect("a disk");
        std::fs::create_dir(path("mounted")).expect("made");
        let mut mounted = Mounted::new(&ext4, disk.device(), &path("mounted")).expect("mounted");
        fill(mounted.path());
        mounted.unmount().expect("unmounted");
        std::fs::copy(disk.content_path(), path("base")).expect("copied");
        // The magic number, the version, no entries, the size of sectors.
        let mut log = [0x006a_7366_7773_6872_u64, 1, 0, 512]
            .map(u64::to_le_bytes)
            .concat();
        log.resize(512, 0);
        std::fs::write(path("log"), log).expect("written");
        let import = Import {
            log: path("log"),
            base: path("base"),
            from: None,
        };
        std::fs::create_dir(path("engine")).expect("made");
        let engine = Engine::new(&ext4, &base(), Disk::Honest, &path("engine"));
        let mut engine = engine.expect("one");
        engine.set_import(import);
        engine.run(&Workload::default())
    })
}

#[test]
fn names_on_an_imported_disk_need_not_be_text() {
    let result = import_of(|path| {
        let directory = path.join(OsStr::from_bytes(b"A\xff"));
        std::fs::create_dir(&directory).expect("made");
        std::fs::write(directory.join(OsStr::from_bytes(b"a\xfe")), "foo").expect("written");
        std::fs::write(directory.join(r"a\xfe"), "bar").expect("written");
    });
    assert_eq!(result.verdict(), Verdict::Clean, "{result:?}");
    assert_eq!(result.states_checked, 1);
}

#[test]
fn a_long_file_on_an_imported_disk_is_no_damage() {
    let result = import_of(|path| {
        std::fs::write(path.join("long"), vec![0; 65 << 20]).expect("written");
    });
    assert_eq!(result.verdict(), Verdict::Inconclusive, "{result:?}");
    let why = result.inconclusive.unwrap_or_default();
    assert_eq!(
        why,
        "read of 'long' is too much: File too large (os error 27)"
    );
}

#[test]
fn a_file_that_is_longer_before_its_memory_is_written_breaks_nothing() {
    require_root();
    let text = "setup; creat foo; write foo 0 4K; run; mmapwrite foo 4K 8K; creat bar; fsync bar; fsync foo";
    for file_system in FILE_SYSTEMS {
        let workload = workloads::parse(text, "mapped")
            .expect("a workload")
            .remove(0);
        let result = in_own_namespace(|| {
            Laboratory::new(file_system)
                .engine(Disk::Honest)
                .run(&workload)
        });
        assert_eq!(
            result.verdict(),
            Verdict::Clean,
            "{file_system}: {result:?}"
        );
    }
}
