//! Kernels that do what none should: they are processes and sockets of the test's.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::Command;

use machine::Uml;

use super::*;
use crate::clock::Clock;
use crate::process::Process;
use crate::switch::BITS_PER_SECOND;

/// A simulation with one machine, which seems to be on, and the other end of its calendar.
fn with_machine() -> (Simulation, UnixStream) {
    let consoles = std::env::temp_dir();
    let mut simulation = Simulation::new(Settings {
        kernel: kernel(),
        seed: 1,
        link: Link::USUAL,
        bits_per_second: BITS_PER_SECOND,
        consoles,
    })
    .expect("made");
    let spec = MachineSpec {
        name: "n0".into(),
        address: [2, 0, 0, 0, 0, 1],
        memory_mib: 64,
        disks: Vec::new(),
        clock: Clock::default(),
        chaos: None,
        init: Vec::new(),
    };
    let machine = simulation.add(spec).expect("added");
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let child = Command::new("sleep").arg("1000").spawn();
    let process = Process::spawned(&child.expect("started"));
    simulation.machines[machine].be_on(process, ours);
    (simulation, theirs)
}

/// One that scripts/build-uml.sh has built.
fn kernel() -> Uml {
    Uml::find_simulated(None, 1).expect("a kernel")
}

#[test]
fn a_driver_that_breaks_the_protocol_is_an_error_and_no_dead_device() {
    let (mut simulation, _calendar) = with_machine();
    let device = simulation.directory.path().join("n0.network");
    let mut driver = UnixStream::connect(device).expect("connected");
    let header = [1_u32, 1, 5000].map(u32::to_le_bytes).concat();
    driver.write_all(&header).expect("sent");
    let served = simulation.serve(0, &|| true).err().expect("no message");
    assert!(matches!(served, Error::Kernel { .. }), "{served:?}");
    assert!(served.to_string().contains("5000 bytes"), "{served}");
}

#[test]
fn a_driver_that_is_gone_is_told_of_by_its_kernel() {
    let (mut simulation, _calendar) = with_machine();
    let device = simulation.directory.path().join("n0.network");
    drop(UnixStream::connect(device).expect("connected"));
    let served = simulation.serve(0, &|| true).err().expect("it is quiet");
    assert!(matches!(served, Error::Interrupted), "{served:?}");
}
