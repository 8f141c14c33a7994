//! Both front ends must hold what they are told to hold, and the recording one must have seen
//! everything. Needs root.

mod common;
#[path = "common/steps.rs"]
mod steps;

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use block_dev::{
    Answer, Base, BlockLog, Completion, DiskRequest, Faulty, FrontEnd, FuseDisk, Image, Kind, Mark,
    MemfdDisk, PAGE_SIZE, RequestTrace, recognise_fua,
};
use common::{AlignedPage, SIZE_BYTES, base, in_namespace, open_direct};
use steps::{content, rebuilt};

const SEEDS: std::ops::Range<u64> = 0..8;

/// What the block device shows, past the kernel's cache.
fn device_content(device: &Path) -> Vec<u8> {
    steps::shown(device).expect("read")
}

/// Writes here and there through the block device, as a mounted file system would.
fn scribble(device: &Path, seed: u8) {
    let file = OpenOptions::new().write(true).open(device).expect("open");
    for place in [1_u64, 4, 77, 1500] {
        let at = (place + u64::from(seed)) * PAGE_SIZE as u64 + 512;
        file.write_all_at(&[seed | 1; 5000], at).expect("write");
    }
    file.sync_all().expect("sync");
}

fn holds_what_it_is_told(disk: &mut dyn FrontEnd, base: &Arc<Base>) {
    let mut image = Image::new(Arc::clone(base));
    assert!(
        device_content(disk.device()) == content(&image),
        "a new disk holds its base"
    );
    for seed in 0..20 {
        scribble(disk.device(), seed);
        image.reset();
        image.write(u64::from(seed) * 70_000, &[0x55; 9000]);
        image.discard(3 * PAGE_SIZE as u64, u64::from(seed) * 100);
        disk.load(&image).expect("load");
        assert!(
            device_content(disk.device()) == content(&image),
            "after load number {seed}"
        );
    }
    let image = image_of_another_base();
    disk.load(&image).expect("load");
    assert!(
        device_content(disk.device()) == content(&image),
        "an image has its base"
    );
}

/// An image of another disk of the same size.
fn image_of_another_base() -> Image {
    let mut other = Image::new(Arc::new(Base::empty(SIZE_BYTES)));
    for page in [4, 77, 1999] {
        other.write(page * PAGE_SIZE as u64, &[0x66; 5000]);
    }
    let mut image = Image::new(Arc::new(Base::from_image(&other)));
    image.write(70_000, &[0x77; 9000]);
    image
}

#[test]
fn the_memfd_disk_holds_what_it_is_told_whatever_was_written_to_it() {
    in_namespace(|directory| {
        let base = base(directory);
        let mut disk = MemfdDisk::new(&base).expect("a disk");
        holds_what_it_is_told(&mut disk, &base);
        scribble(disk.device(), 7);
        let found = disk.content(&base).expect("content");
        assert!(
            content(&found) == device_content(disk.device()),
            "its content is what the device shows"
        );
    });
}

#[test]
fn the_fuse_disk_holds_what_it_is_told_whatever_was_written_to_it() {
    in_namespace(|directory| {
        let base = base(directory);
        let mut disk = FuseDisk::new(&base, directory, Completion::AtOnce).expect("a disk");
        holds_what_it_is_told(&mut disk, &base);
    });
}

/// Takes the steps of a seed on a disk that holds what `image` does, and checks what it shows then.
fn takes_steps(disk: &mut dyn FrontEnd, image: &Image, seed: u64) {
    steps::carry_out(disk.device(), &steps::steps(seed)).expect("taken");
    assert!(
        device_content(disk.device()) == steps::model(&content(image), &steps::steps(seed)),
        "after the steps of seed {seed}"
    );
}

#[test]
fn the_memfd_disk_holds_what_random_steps_leave() {
    in_namespace(|directory| {
        let base = base(directory);
        let mut disk = MemfdDisk::new(&base).expect("a disk");
        for seed in SEEDS {
            let before = disk.content(&base).expect("content");
            takes_steps(&mut disk, &before, seed);
        }
    });
}

#[test]
fn the_fuse_disk_holds_what_random_steps_leave_and_its_log_has_them() {
    in_namespace(|directory| {
        let base = base(directory);
        let mut disk = FuseDisk::new(&base, directory, Completion::AtOnce).expect("a disk");
        for seed in SEEDS {
            disk.start_recording().expect("start");
            let before = Image::new(Arc::clone(&base));
            takes_steps(&mut disk, &before, seed);
            steps::check_log(&before, &disk.stop_recording(), &steps::steps(seed));
        }
    });
}

#[test]
fn the_log_of_the_fuse_disk_rebuilds_its_content_and_keeps_the_order_of_writes_flushes_and_marks() {
    in_namespace(|directory| {
        let base = base(directory);
        let mut disk = FuseDisk::new(&base, directory, Completion::AtOnce).expect("a disk");
        scribble(disk.device(), 3);
        disk.start_recording().expect("start");
        disk.mark(Mark::OperationStart(0));
        scribble(disk.device(), 9);
        disk.mark(Mark::OperationEnd(0));
        let direct = open_direct(disk.device());
        let aligned = AlignedPage([0xAA; PAGE_SIZE]);
        direct
            .write_all_at(&aligned.0, 100 * PAGE_SIZE as u64)
            .expect("write");
        drop(direct);
        let shown = device_content(disk.device());
        let log = disk.stop_recording();
        scribble(disk.device(), 11);
        assert!(
            rebuilt(&Image::new(base), &log, log.len()) == shown,
            "the log alone gives the content"
        );

        let kinds: Vec<Kind> = log.entries().iter().map(|entry| entry.kind).collect();
        let place = |wanted: Kind| {
            kinds
                .iter()
                .position(|kind| *kind == wanted)
                .expect("it is there")
        };
        let (start, end) = (
            place(Kind::Mark(Mark::OperationStart(0))),
            place(Kind::Mark(Mark::OperationEnd(0))),
        );
        let flush = place(Kind::Flush);
        assert!(
            start < flush && flush < end,
            "the flush of sync lies between the marks"
        );
        let last = Kind::Write {
            offset: 100 * PAGE_SIZE as u64,
            length: PAGE_SIZE as u32,
            fua: false,
        };
        assert!(place(last) > end, "a direct write arrives as it was sent");
        assert!(
            log.entries()
                .windows(2)
                .all(|pair| pair[0].time_ns <= pair[1].time_ns)
        );
    });
}

#[test]
fn what_is_written_while_a_recording_is_cut_is_in_one_of_the_logs() {
    in_namespace(|directory| {
        let base = base(directory);
        let mut disk = FuseDisk::new(&base, directory, Completion::AtOnce).expect("a disk");
        disk.start_recording().expect("start");
        let device = open_direct(disk.device());
        let writer = std::thread::spawn(move || {
            for round in 0..2000 {
                let page = AlignedPage([(round % 251) as u8; PAGE_SIZE]);
                let at = (round * 7 % 500) * PAGE_SIZE as u64;
                device.write_all_at(&page.0, at).expect("write");
            }
        });
        let mut logs = Vec::new();
        while !writer.is_finished() {
            logs.push(disk.cut_recording());
            logs.retain(|log| !log.is_empty());
        }
        writer.join().expect("written");
        logs.push(disk.stop_recording());
        assert!(logs.len() > 2, "it was cut while it was written to");
        let mut image = Image::new(base);
        for log in &logs {
            (0..log.len()).for_each(|place| log.apply(place, &mut image));
        }
        assert!(content(&image) == device_content(disk.device()));
    });
}

/// Whether each write of a log had FUA.
fn fua(log: &BlockLog) -> Vec<bool> {
    let of = |kind: Kind| match kind {
        Kind::Write { fua, .. } => Some(fua),
        _ => None,
    };
    let kinds = log.entries().iter().map(|entry| entry.kind);
    kinds.filter_map(of).collect()
}

#[test]
fn a_write_with_fua_whose_flush_fails_is_not_taken_for_durable() {
    in_namespace(|directory| {
        let is_flush = |request| request == DiskRequest::Flush;
        let first_fails = Faulty::new(Answer::Fail, 1, Completion::AtOnce, Box::new(is_flush));
        let mut disk = FuseDisk::new(&base(directory), directory, first_fails).expect("a disk");
        let number = disk.device_number().expect("a number");
        let mut trace = RequestTrace::start(number, directory).expect("tracefs");
        trace.read_meanwhile().expect("a thread");
        let start_ns = FuseDisk::now_ns();
        disk.start_recording().expect("start");
        let mut options = OpenOptions::new();
        options
            .write(true)
            .custom_flags(libc::O_DIRECT | libc::O_DSYNC);
        let device = options.open(disk.device()).expect("open");
        let page = AlignedPage([7; PAGE_SIZE]);
        let write = |page_number| device.write_all_at(&page.0, page_number * PAGE_SIZE as u64);
        write(1).expect_err("its flush fails");
        write(2).expect("written");
        let mut log = disk.stop_recording();
        recognise_fua(&mut log, Some(&mut trace), start_ns).expect("traced");
        assert!(log.recognises_fua());
        assert_eq!(fua(&log), [false, true], "{log:?}");
    });
}
