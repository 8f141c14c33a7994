//! The table of calls as the program that the kernel runs for each call: seccomp(2), BPF.

use std::mem::offset_of;

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET,
    BPF_RSH, BPF_W,
};
use libc::{SECCOMP_RET_ALLOW, SECCOMP_RET_TRACE, seccomp_data, sock_filter};

use crate::Table;
use crate::calls::{FOREIGN, NEWEST, UNKNOWN, When};

/// Of linux/audit.h.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// The numbers from here on are those of x32, where there is such a thing.
const X32: u32 = 0x4000_0000;

/// The types of ioctl(2) that file systems have: `f`, `X`, that of btrfs and reflinks, and that of
/// f2fs.
const FILE_SYSTEM_CONTROLS: [u32; 4] = [0x66, 0x58, 0x94, 0xf5];

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

fn jump(code: u32, k: u32, jt: usize, jf: usize) -> sock_filter {
    let far = |jump| u8::try_from(jump).expect("the jumps of a row are short");
    sock_filter {
        code: (BPF_JMP | code | BPF_K) as u16,
        jt: far(jt),
        jf: far(jf),
        k,
    }
}

fn load(offset: usize) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, offset as u32)
}

fn answer(action: u32) -> sock_filter {
    statement(BPF_RET | BPF_K, action)
}

/// The lower half of an argument, on a machine whose numbers begin with it.
fn argument(number: u32) -> sock_filter {
    load(offset_of!(seccomp_data, args) + number as usize * size_of::<u64>())
}

/// What decides once the number is known: it ends with an answer in each case.
fn decision(place: usize, when: When) -> Vec<sock_filter> {
    let trace = answer(SECCOMP_RET_TRACE | place as u32);
    let allow = answer(SECCOMP_RET_ALLOW);
    match when {
        When::Always => vec![trace],
        When::Bits {
            argument: number,
            bits,
        } => vec![argument(number), jump(BPF_JSET, bits, 0, 1), trace, allow],
        When::Is {
            argument: number,
            value,
        } => vec![argument(number), jump(BPF_JEQ, value, 0, 1), trace, allow],
        When::SharedFile => vec![
            argument(3),
            jump(BPF_JSET, libc::MAP_ANONYMOUS as u32, 2, 0),
            // MAP_SHARED and MAP_SHARED_VALIDATE have it, MAP_PRIVATE does not.
            jump(BPF_JSET, libc::MAP_SHARED as u32, 0, 1),
            trace,
            allow,
        ],
        When::FileSystemControl => {
            let mut all = vec![argument(1), statement(BPF_ALU | BPF_RSH | BPF_K, 8)];
            all.push(statement(BPF_ALU | BPF_AND | BPF_K, 0xff));
            for (done, control) in FILE_SYSTEM_CONTROLS.iter().enumerate() {
                all.push(jump(
                    BPF_JEQ,
                    *control,
                    FILE_SYSTEM_CONTROLS.len() - done,
                    0,
                ));
            }
            all.extend([allow, trace]);
            all
        }
    }
}

/// The program for a table.
pub(crate) fn program(table: &Table) -> Vec<sock_filter> {
    let foreign = answer(SECCOMP_RET_TRACE | FOREIGN);
    let mut program = vec![
        load(offset_of!(seccomp_data, arch)),
        jump(BPF_JEQ, ARCHITECTURE, 1, 0),
        foreign,
    ];
    program.push(load(offset_of!(seccomp_data, nr)));
    program.extend([jump(BPF_JGE, X32, 0, 1), foreign]);
    let unknown = answer(SECCOMP_RET_TRACE | UNKNOWN);
    program.extend([jump(BPF_JGE, NEWEST + 1, 0, 1), unknown]);
    for (place, row) in table.rows.iter().enumerate() {
        let Some(number) = row.numbers.here() else {
            continue;
        };
        let decision = decision(place, row.when);
        program.push(jump(BPF_JEQ, number, 0, decision.len()));
        program.extend(decision);
    }
    program.push(answer(SECCOMP_RET_ALLOW));
    program
}
