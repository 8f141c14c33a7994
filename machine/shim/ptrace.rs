//! A library that is preloaded into the process of a User-Mode Linux kernel, on hosts whose
//! processors have more state than that kernel knows of. build.rs compiles it, and xstate.rs says
//! when it is used.
//!
//! Up to Linux 6.12 a User-Mode Linux kernel keeps 2,696 bytes of a guest process's extended
//! processor state (XSAVE, up to AVX-512 and protection keys) and hands these to
//! `PTRACE_SETREGSET(NT_X86_XSTATE)`. The host takes its whole state or answers EFAULT
//! (`xstateregs_set` in arch/x86/kernel/fpu/regset.c), and with AMX the whole state has 11,008
//! bytes. This `ptrace` then reads the whole state, lays the kernel's bytes over its front, and
//! writes all of it. What is beyond is the tile data of AMX, which no guest's program can use:
//! User-Mode Linux does not know the request for it (`ARCH_REQ_XCOMP_PERM`).
//!
//! The process has no allocator that could be called here, and little stack (a guest's kernel
//! stack), so there is no standard library, and the state is kept in a static.

#![no_std]

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_long, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

/// More than any processor's state has.
const STATE_BYTES_MAX: usize = 64 << 10;

const EFAULT: c_int = 14;
const SYS_PTRACE: c_long = 101;
const PEEK_REQUESTS: core::ops::RangeInclusive<c_int> = 1..=3;
const PTRACE_GETREGSET: c_int = 0x4204;
const PTRACE_SETREGSET: c_int = 0x4205;
const NT_X86_XSTATE: usize = 0x202;

/// `struct iovec`.
#[repr(C)]
struct Bytes {
    base: *mut c_void,
    length: usize,
}

unsafe extern "C" {
    fn syscall(number: c_long, request: c_long, pid: c_long, address: c_long, data: c_long) -> c_long;
    fn __errno_location() -> *mut c_int;
}

struct State(UnsafeCell<[u8; STATE_BYTES_MAX]>);

// SAFETY: only who has set BUSY uses it.
unsafe impl Sync for State {}

static STATE: State = State(UnsafeCell::new([0; STATE_BYTES_MAX]));
static BUSY: AtomicBool = AtomicBool::new(false);

/// Whether the host has refused a part of the state before: it always will.
static WHOLE: AtomicBool = AtomicBool::new(false);

/// The system call. It sets errno, and returns -1, as the C library's functions do.
fn call(request: c_int, pid: c_int, address: usize, data: *mut c_void) -> c_long {
    // SAFETY: what is asked for, and where it may write, is up to our caller, as with ptrace
    // itself.
    unsafe { syscall(SYS_PTRACE, request.into(), pid.into(), address as c_long, data as c_long) }
}

fn errno() -> c_int {
    // SAFETY: the C library's promise.
    unsafe { *__errno_location() }
}

fn set_errno(errno: c_int) {
    // SAFETY: the C library's promise.
    unsafe { *__errno_location() = errno }
}

/// ptrace(2), as the C library has it but for `PTRACE_SETREGSET` of a part of the processor's
/// state.
///
/// # Safety
/// As for ptrace(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ptrace(request: c_int, pid: c_int, address: *mut c_void, data: *mut c_void) -> c_long {
    let address = address as usize;
    if PEEK_REQUESTS.contains(&request) {
        // What was read is the result, and -1 may be: errno tells.
        let mut word: c_long = 0;
        if call(request, pid, address, (&raw mut word).cast()) < 0 {
            return -1;
        }
        set_errno(0);
        return word;
    }
    if request != PTRACE_SETREGSET || address != NT_X86_XSTATE || data.is_null() {
        return call(request, pid, address, data);
    }
    if !WHOLE.load(Ordering::Relaxed) {
        let result = call(request, pid, address, data);
        if result >= 0 || errno() != EFAULT {
            return result;
        }
    }
    // SAFETY: it is the caller's `struct iovec`.
    unsafe { set_whole_state(pid, &*data.cast::<Bytes>()) }
}

/// Sets the whole state of a process: `part`, and after it what the process has.
///
/// # Safety
/// `part` is memory of the caller's.
unsafe fn set_whole_state(pid: c_int, part: &Bytes) -> c_long {
    if BUSY.swap(true, Ordering::Acquire) {
        set_errno(EFAULT);
        return -1;
    }
    let buffer: *mut u8 = STATE.0.get().cast();
    let mut whole = Bytes { base: buffer.cast(), length: STATE_BYTES_MAX };
    let mut result = call(PTRACE_GETREGSET, pid, NT_X86_XSTATE, (&raw mut whole).cast());
    if result >= 0 && whole.length <= part.length {
        // It was not for its length that it was refused.
        set_errno(EFAULT);
        result = -1;
    }
    if result >= 0 {
        // SAFETY: the state is ours while BUSY is set, and longer than the part.
        unsafe { ptr::copy_nonoverlapping(part.base.cast::<u8>(), buffer, part.length) };
        result = call(PTRACE_SETREGSET, pid, NT_X86_XSTATE, (&raw mut whole).cast());
    }
    if result >= 0 {
        WHOLE.store(true, Ordering::Relaxed);
    }
    BUSY.store(false, Ordering::Release);
    result
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // Nothing here panics.
    loop {}
}
