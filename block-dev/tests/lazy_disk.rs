//! A lazy disk tells who sends a flush without waiting for its writes. Needs root.

mod common;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block_dev::{BlockLog, Completion, FrontEnd, FuseDisk, Image, Kind, NEVER, PAGE_SIZE};
use common::{AlignedPage, base, in_namespace, open_direct};

const LAZY: Completion = Completion::Lazy { seed: 1 };

/// How often a writer does what it does.
const ROUNDS: u64 = 40;

/// Only ends what would hang.
const PATIENCE: Duration = Duration::from_secs(600);

fn offset(round: u64) -> u64 {
    (round + 10) * PAGE_SIZE as u64
}

fn page_of(round: u64) -> [u8; PAGE_SIZE] {
    [(round % 250) as u8 + 1; PAGE_SIZE]
}

fn write(device: &File, round: u64) {
    let page = AlignedPage(page_of(round));
    device.write_all_at(&page.0, offset(round)).expect("write");
}

/// Waits for every write before it sends the flush.
fn patient_writer(disk: &FuseDisk) {
    let device = open_direct(disk.device());
    for round in 0..ROUNDS {
        write(&device, round);
        device.sync_data().expect("flush");
    }
}

/// Sends the flush when the write has arrived at the disk, and may be in flight.
fn hasty_writer(disk: &FuseDisk) {
    let device = open_direct(disk.device());
    for round in 0..ROUNDS {
        let position = disk.log_position();
        std::thread::scope(|scope| {
            let write = scope.spawn(|| write(&device, round));
            let deadline = Instant::now() + PATIENCE;
            while disk.log_position() == position {
                assert!(Instant::now() < deadline, "the write never arrives");
                std::hint::spin_loop();
            }
            device.sync_data().expect("flush");
            write.join().expect("written");
        });
    }
}

fn recorded(directory: &Path, completion: Completion, writer: impl Fn(&FuseDisk)) -> BlockLog {
    let mut disk = FuseDisk::new(&base(directory), directory, completion).expect("a disk");
    disk.start_recording().expect("start");
    writer(&disk);
    let log = disk.stop_recording();
    drop(disk);
    std::fs::remove_file(directory.join("base")).expect("removed");
    log
}

/// For each round, whether the next flush after its write covers it.
fn covered_by_next_flush(log: &BlockLog) -> Vec<bool> {
    let of_round = |round| {
        let is_write =
            |kind: Kind| matches!(kind, Kind::Write { offset: at, .. } if at == offset(round));
        let write = log
            .entries()
            .iter()
            .position(|entry| is_write(entry.kind))
            .expect("it was written");
        let is_flush = |place: &usize| log.entries()[*place].kind == Kind::Flush;
        let flush = (write..log.len()).find(is_flush).expect("it was flushed");
        log.covered_by(flush).any(|place| place == write)
    };
    (0..ROUNDS).map(of_round).collect()
}

#[test]
fn a_flush_sent_while_a_write_is_under_way_does_not_cover_it_on_a_lazy_disk() {
    in_namespace(|directory| {
        // One write of four is completed at once, and where the machine is busy the others are as
        // well before the flush comes: there it takes more rounds.
        let (mut uncovered, deadline) = (0, Instant::now() + PATIENCE);
        while uncovered < ROUNDS / 4 {
            assert!(Instant::now() < deadline, "{uncovered} in all");
            let covered = covered_by_next_flush(&recorded(directory, LAZY, hasty_writer));
            uncovered += covered.iter().filter(|covered| !**covered).count() as u64;
        }
        let log = recorded(directory, LAZY, patient_writer);
        assert!(
            log.entries().iter().all(|entry| entry.completed != NEVER),
            "everything was completed"
        );
        let covered = covered_by_next_flush(&log);
        assert!(
            covered.iter().all(|covered| *covered),
            "who waits is never accused: {covered:?}"
        );
    });
}

#[test]
fn an_ordinary_disk_hides_who_does_not_wait() {
    in_namespace(|directory| {
        for writer in [hasty_writer, patient_writer] {
            let log = recorded(directory, Completion::AtOnce, writer);
            assert!(covered_by_next_flush(&log).iter().all(|covered| *covered));
            assert!(
                log.entries()
                    .iter()
                    .enumerate()
                    .all(|(place, entry)| entry.completed == place + 1)
            );
        }
    });
}

/// More writers at a time than the disk holds back and the kernel sends in the background.
fn crowd(disk: &FuseDisk, content: &mut Image) {
    std::thread::scope(|scope| {
        for writer in 0..40 {
            scope.spawn(move || {
                let device = open_direct(disk.device());
                let mut read = AlignedPage([0; PAGE_SIZE]);
                for round in (writer..400).step_by(40) {
                    write(&device, round);
                    device
                        .read_exact_at(&mut read.0, offset(round))
                        .expect("read");
                    assert_eq!(read.0, page_of(round));
                }
                device.sync_data().expect("flush");
            });
        }
    });
    for round in 0..400 {
        content.write(offset(round), &page_of(round));
    }
}

#[test]
fn a_crowd_of_writers_gets_all_its_answers_and_reads_what_it_wrote() {
    in_namespace(|directory| {
        let base = base(directory);
        let mut disk = FuseDisk::new(&base, directory, LAZY).expect("a disk");
        for _ in 0..5 {
            disk.start_recording().expect("start");
            let mut wanted = Image::new(Arc::clone(&base));
            crowd(&disk, &mut wanted);
            let log = disk.stop_recording();
            let mut rebuilt = Image::new(Arc::clone(&base));
            (0..log.len()).for_each(|place| log.apply(place, &mut rebuilt));
            assert!(rebuilt.hash() == wanted.hash(), "the log gives the content");
            // Answers came between later requests too, not only at once.
            assert!(
                log.entries()
                    .iter()
                    .enumerate()
                    .any(|(place, entry)| entry.completed > place + 1)
            );
            disk.recycle(log);
        }
    });
}

#[test]
fn a_disk_goes_while_it_holds_a_write_back() {
    in_namespace(|directory| {
        let base = base(directory);
        for _ in 0..20 {
            let mut disk = FuseDisk::new(&base, directory, LAZY).expect("a disk");
            disk.start_recording().expect("start");
            let device = open_direct(disk.device());
            let position = disk.log_position();
            let writer = std::thread::spawn(move || write(&device, 0));
            let deadline = Instant::now() + PATIENCE;
            while disk.log_position() == position {
                assert!(Instant::now() < deadline, "the write never arrives");
            }
            let log = disk.stop_recording();
            assert_eq!(log.len(), position + 1);
            drop(disk);
            writer.join().expect("it was completed");
        }
    });
}
