//! Damage that nothing but a file system's own checker sees is found where the tree is as it
//! recovered; once everything was deleted, most of it is gone. Needs root.

use std::collections::BTreeSet;
use std::fs::{File, read_to_string};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use checker::Promise;
use end_to_end::{Laboratory, in_own_namespace, require_root};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

const WORKLOAD: &str = "
    mkdir A; creat A/foo; write A/foo 0 16K; setxattr A/foo user.key value; link A/foo A/bar
    symlink target A/sym; sync; !
";

/// What is mounted on a path.
fn device(path: &Path) -> PathBuf {
    let mounts = read_to_string("/proc/thread-self/mounts").expect("read");
    let line = mounts
        .lines()
        .find(|line| line.split(' ').nth(1) == path.to_str())
        .expect("it is mounted");
    PathBuf::from(line.split(' ').next().expect("it has a device"))
}

/// Plants damage on the unmounted disk of every recovered state; says what is found.
fn planted(file_system: &'static str, plant: fn(&Path, u64)) -> BTreeSet<Promise> {
    require_root();
    let workload = workloads::parse(WORKLOAD, "planted")
        .expect("a workload")
        .remove(0);
    let tamper = move |path: &Path| {
        let number = path.join("A/foo").metadata().expect("it is there").ino();
        let device = device(path);
        umount2(path, MntFlags::empty()).expect("unmounted");
        plant(&device, number);
        let options = Some("nouuid").filter(|_| file_system == "xfs");
        let flags = MsFlags::MS_NOATIME;
        mount(Some(&device), path, Some(file_system), flags, options).expect("mounted again");
    };
    let result = in_own_namespace(|| Laboratory::new(file_system).tamper(&workload, tamper));
    assert_eq!(result.inconclusive, None, "{file_system}");
    let findings = result.broken.iter().flat_map(|state| &state.findings);
    findings.map(|finding| finding.promise).collect()
}

fn run(program: &str, arguments: &[&str], device: &Path) {
    let output = Command::new(program)
        .args(arguments)
        .arg(device)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program}: {said}");
}

fn debugfs(request: &str, device: &Path) {
    run("debugfs", &["-w", "-R", request], device);
}

fn xfs_db(requests: &[&str], device: &Path) {
    let requests: Vec<_> = requests.iter().flat_map(|text| ["-c", *text]).collect();
    run("xfs_db", &[&["-x"], requests.as_slice()].concat(), device);
}

/// CRC-32C, of which btrfs keeps the complement.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

/// Adds to a field of the inode item of a file, wherever a leaf of btrfs has it.
fn btrfs_inode(device: &Path, number: u64, field: usize, more: u64) {
    const NODE_BYTES: usize = 16384;
    let file = File::options()
        .read(true)
        .write(true)
        .open(device)
        .expect("opened");
    let mut changed = 0;
    let mut node = vec![0; NODE_BYTES];
    for offset in (0..).step_by(NODE_BYTES) {
        if file.read_exact_at(&mut node, offset).is_err() {
            break;
        }
        let csum = u32::from_le_bytes(node[..4].try_into().expect("four"));
        if csum == 0 || csum != crc32c(&node[32..]) || node[100] != 0 {
            continue;
        }
        let items = u32::from_le_bytes(node[96..100].try_into().expect("four")) as usize;
        let is_it = |at: &usize| node[*at..*at + 8] == number.to_le_bytes() && node[at + 8] == 1;
        let places = (0..items).map(|item| 101 + 25 * item);
        let Some(at) = places.take_while(|at| at + 25 <= NODE_BYTES).find(is_it) else {
            continue;
        };
        let data = u32::from_le_bytes(node[at + 17..at + 21].try_into().expect("four")) as usize;
        let place = 101 + data + field;
        let value = u64::from_le_bytes(node[place..place + 8].try_into().expect("eight"));
        node[place..place + 8].copy_from_slice(&(value + more).to_le_bytes());
        let csum = crc32c(&node[32..]);
        node[..4].copy_from_slice(&csum.to_le_bytes());
        file.write_all_at(&node, offset).expect("written");
        changed += 1;
    }
    assert!(changed > 0, "no leaf has inode {number}");
    file.sync_all().expect("synced");
}

#[test]
fn nothing_planted() {
    for file_system in end_to_end::FILE_SYSTEMS {
        assert_eq!(planted(file_system, |_, _| {}), [].into(), "{file_system}");
    }
}

#[test]
fn a_wrong_number_of_blocks_of_a_file() {
    let found = planted("ext4", |device, _| {
        debugfs("set_inode_field A/foo blocks 48", device);
    });
    assert_eq!(found, [Promise::BlocksExact, Promise::FsckClean].into());
    let found = planted("xfs", |device, number| {
        let inode = format!("inode {number}");
        xfs_db(&[&inode, "write -d core.nblocks 6"], device);
    });
    assert_eq!(found, [Promise::FsckClean].into());
    // After generation, transaction and size.
    let found = planted("btrfs", |device, number| {
        btrfs_inode(device, number, 24, 8192);
    });
    assert_eq!(found, [Promise::FsckClean].into());
}

#[test]
fn a_wrong_number_of_blocks_of_a_directory() {
    let found = planted("ext4", |device, _| {
        debugfs("set_inode_field A blocks 16", device);
    });
    assert_eq!(found, [Promise::FsckClean].into());
}
