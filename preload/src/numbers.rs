//! `syscall`: the numbers of calls that are hooked by name take the way of that hook; all others,
//! which programs use far more often (futex, gettid), pass with two comparisons.
//!
//! Exported by hand: a program may clone through it onto another stack, where a frame of ours would
//! not be found again, so whatever passes is jumped to with registers and stack as the caller left
//! them.

use crate::{confinement, data, epoll, exec, io_uring, lifecycle, limits, messages, options};
use crate::{errno, process, readiness, streams};
use libc::{CLONE_THREAD, CLONE_VM, RTLD_NEXT, c_int, c_long, c_void, sigset_t, timespec};
use sockets::api::{self, Verdict};
use std::mem::transmute;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

type SyscallFunction = unsafe extern "C" fn(c_long, ...) -> c_long;

/// Numbers from here on pass.
pub const NUMBERS: usize = 512;
/// What becomes of a number: nothing, its hook, or the question which kind of clone it is.
const PASSES: u8 = 0;
const HOOKED: u8 = 1;
const CLONES: u8 = 2;
/// The kernel's sigset_t.
const SET_SIZE: usize = 8;

/// Null until load; the first call of another library's constructor may come before.
static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

pub const RESOLVE: &[fn()] = &[|| {
    real();
}];

fn real() -> SyscallFunction {
    let mut address = REAL.load(Relaxed);
    if address.is_null() {
        // SAFETY: a C string; RTLD_NEXT asks for the definition behind ours.
        address = unsafe { libc::dlsym(RTLD_NEXT, c"syscall".as_ptr()) };
        REAL.store(address, Relaxed);
    }
    // SAFETY: libc's function of this name.
    unsafe { transmute::<*mut c_void, SyscallFunction>(address) }
}

/// Load time: a kernel call that is restarted on another connection takes the way of its hook.
pub fn take_restarts() {
    api::restarts(hooked, data::recv::real() as usize);
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "cmp rdi, {numbers}",
        "jae 2f",
        "lea rax, [rip + {kinds}]",
        "movzx eax, byte ptr [rax + rdi]",
        "test eax, eax",
        "jnz 3f",
        "2:",
        "mov rax, [rip + {real}]",
        "test rax, rax",
        "jz 4f",
        "jmp rax",
        "3:",
        "cmp eax, {clones}",
        "jne 4f",
        // Six registers and the return address: the stack is aligned again at the call.
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "push rcx",
        ".cfi_adjust_cfa_offset 8",
        "push r8",
        ".cfi_adjust_cfa_offset 8",
        "push r9",
        ".cfi_adjust_cfa_offset 8",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {forks}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop r9",
        ".cfi_adjust_cfa_offset -8",
        "pop r8",
        ".cfi_adjust_cfa_offset -8",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "test al, al",
        "jz 2b",
        "4:",
        "jmp {hooked}",
        ".cfi_endproc",
        numbers = const NUMBERS,
        clones = const CLONES,
        kinds = sym KINDS,
        real = sym REAL,
        forks = sym forks,
        hooked = sym hooked,
    )
}

/// A clone that acts as fork, and returns into the caller's frames in both processes? Of the others
/// threads are nothing to us, and the rest are children that exec, as in `clone`.
pub unsafe extern "C" fn forks(number: c_long, first: usize, second: usize) -> bool {
    let (flags, stack) = match number {
        // SAFETY: any bytes are numbers. struct clone_args begins with the flags; its sixth word is
        // the stack.
        libc::SYS_clone3 if second >= 48 => match unsafe { api::load(first as *const [u64; 6]) } {
            Some([flags, .., stack]) => (flags as c_int, stack as usize),
            None => return false,
        },
        libc::SYS_clone => (first as c_int, second),
        _ => return false,
    };
    if flags & CLONE_VM == 0 && stack == 0 {
        return true;
    }
    if flags & CLONE_THREAD == 0 {
        api::before_spawn();
    }
    false
}

macro_rules! numbers {
    ($($number:ident),* $(,)?) => {{
        let mut kinds = [PASSES; NUMBERS];
        $(kinds[libc::$number as usize] = HOOKED;)*
        kinds[libc::SYS_clone as usize] = CLONES;
        kinds[libc::SYS_clone3 as usize] = CLONES;
        kinds
    }};
}

pub static KINDS: [u8; NUMBERS] = numbers![
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_preadv2,
    SYS_pwritev2,
    SYS_recvfrom,
    SYS_sendto,
    SYS_recvmsg,
    SYS_sendmsg,
    SYS_recvmmsg,
    SYS_sendmmsg,
    SYS_sendfile,
    SYS_splice,
    SYS_vmsplice,
    SYS_tee,
    SYS_socket,
    SYS_socketpair,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    SYS_connect,
    SYS_shutdown,
    SYS_close,
    SYS_close_range,
    SYS_dup,
    SYS_dup2,
    SYS_dup3,
    SYS_fcntl,
    SYS_ioctl,
    SYS_getsockopt,
    SYS_setsockopt,
    SYS_getsockname,
    SYS_getpeername,
    SYS_poll,
    SYS_ppoll,
    SYS_select,
    SYS_pselect6,
    SYS_epoll_create,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_wait,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_fork,
    SYS_vfork,
    SYS_execve,
    SYS_execveat,
    SYS_exit_group,
    SYS_seccomp,
    SYS_prctl,
    SYS_mlockall,
    SYS_setrlimit,
    SYS_getrlimit,
    SYS_prlimit64,
    SYS_chroot,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
];

/// The call of this number through its hook. libc's forms have the kernel's arguments, but for
/// those that take a signal mask.
#[rustfmt::skip]
pub unsafe extern "C" fn hooked(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    // SAFETY: the program's own arguments, handed on as it gave them.
    unsafe {
        match number {
            libc::SYS_read => data::read::hooked(a as _, b as _, c) as _,
            libc::SYS_write => data::write::hooked(a as _, b as _, c) as _,
            libc::SYS_readv => data::readv::hooked(a as _, b as _, c as _) as _,
            libc::SYS_writev => data::writev::hooked(a as _, b as _, c as _) as _,
            libc::SYS_preadv2 => data::preadv2::hooked(a as _, b as _, c as _, d as _, f as _) as _,
            libc::SYS_pwritev2 => data::pwritev2::hooked(a as _, b as _, c as _, d as _, f as _) as _,
            libc::SYS_recvfrom => data::recvfrom::hooked(a as _, b as _, c, d as _, e as _, f as _) as _,
            libc::SYS_sendto => data::sendto::hooked(a as _, b as _, c, d as _, e as _, f as _) as _,
            libc::SYS_sendfile => data::sendfile::hooked(a as _, b as _, c as _, d) as _,
            libc::SYS_recvmsg => messages::recvmsg::hooked(a as _, b as _, c as _) as _,
            libc::SYS_sendmsg => messages::sendmsg::hooked(a as _, b as _, c as _) as _,
            libc::SYS_recvmmsg => messages::recvmmsg::hooked(a as _, b as _, c as _, d as _, e as _) as _,
            libc::SYS_sendmmsg => messages::sendmmsg::hooked(a as _, b as _, c as _, d as _) as _,
            libc::SYS_splice => streams::splice::hooked(a as _, b as _, c as _, d as _, e, f as _) as _,
            libc::SYS_vmsplice => streams::vmsplice::hooked(a as _, b as _, c, d as _) as _,
            libc::SYS_tee => streams::tee::hooked(a as _, b as _, c, d as _) as _,
            libc::SYS_socket => lifecycle::socket::hooked(a as _, b as _, c as _) as _,
            libc::SYS_socketpair => lifecycle::socketpair::hooked(a as _, b as _, c as _, d as _) as _,
            libc::SYS_bind => lifecycle::bind::hooked(a as _, b as _, c as _) as _,
            libc::SYS_listen => lifecycle::listen::hooked(a as _, b as _) as _,
            libc::SYS_accept => lifecycle::accept::hooked(a as _, b as _, c as _) as _,
            libc::SYS_accept4 => lifecycle::accept4::hooked(a as _, b as _, c as _, d as _) as _,
            libc::SYS_connect => lifecycle::connect::hooked(a as _, b as _, c as _) as _,
            libc::SYS_shutdown => lifecycle::shutdown::hooked(a as _, b as _) as _,
            libc::SYS_close => lifecycle::close::hooked(a as _) as _,
            libc::SYS_close_range => lifecycle::close_range::hooked(a as _, b as _, c as _) as _,
            libc::SYS_dup => lifecycle::dup::hooked(a as _) as _,
            // glibc's dup2 and the kernel's agree, on this architecture, when both numbers are one.
            libc::SYS_dup2 => lifecycle::dup2::hooked(a as _, b as _) as _,
            libc::SYS_dup3 => lifecycle::dup3::hooked(a as _, b as _, c as _) as _,
            libc::SYS_fcntl => options::fcntl::hooked(a as _, b as _, c as _) as _,
            libc::SYS_ioctl => options::ioctl::hooked(a as _, b as _, c as _) as _,
            libc::SYS_getsockopt => options::getsockopt::hooked(a as _, b as _, c as _, d as _, e as _) as _,
            libc::SYS_setsockopt => options::setsockopt::hooked(a as _, b as _, c as _, d as _, e as _) as _,
            libc::SYS_getsockname => options::getsockname::hooked(a as _, b as _, c as _) as _,
            libc::SYS_getpeername => options::getpeername::hooked(a as _, b as _, c as _) as _,
            _ => hooked_wait(number, a, b, c, d, e, f),
        }
    }
}

/// The calls that wait for several descriptors.
#[rustfmt::skip]
unsafe fn hooked_wait(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    // SAFETY: the program's own arguments, handed on as it gave them.
    unsafe {
        let pass = || real()(number, a, b, c, d, e, f);
        match number {
            libc::SYS_poll => readiness::poll::hooked(a as _, b as _, c as _) as _,
            libc::SYS_select => {
                let limit = api::select_limit(a as _);
                match readiness::selecting(limit, b as _, c as _, d as _, e as _) {
                    Verdict::Done(count) => count as _,
                    Verdict::Fail(error) => errno::fail(error) as _,
                    // Unlike libc's function the kernel survives a bad time.
                    _ => real()(number, limit, b, c, d, e),
                }
            }
            libc::SYS_ppoll => timed(c, d, e, |time, mask| api::poll(a as _, b as _, time, mask), pass),
            libc::SYS_pselect6 if api::has_connections() => {
                let Some(set) = api::load_if_any(f as *const [usize; 2]) else { return pass() };
                let [mask, size] = set.unwrap_or([0, SET_SIZE]);
                timed(e, mask, size, |time, mask| api::select(a as _, b as _, c as _, d as _, time, mask), pass)
            }
            libc::SYS_epoll_create => epoll::epoll_create::hooked(a as _) as _,
            libc::SYS_epoll_create1 => epoll::epoll_create1::hooked(a as _) as _,
            libc::SYS_epoll_ctl => epoll::epoll_ctl::hooked(a as _, b as _, c as _, d as _) as _,
            libc::SYS_epoll_wait => epoll::epoll_wait::hooked(a as _, b as _, c as _, d as _) as _,
            libc::SYS_epoll_pwait if e == 0 || f == SET_SIZE => epoll::epoll_pwait::hooked(a as _, b as _, c as _, d as _, e as _) as _,
            libc::SYS_epoll_pwait2 if e == 0 || f == SET_SIZE => epoll::epoll_pwait2::hooked(a as _, b as _, c as _, d as _, e as _) as _,
            _ => hooked_process(number, a, b, c, d, e, f),
        }
    }
}

/// The calls that are about the process as a whole.
#[rustfmt::skip]
unsafe fn hooked_process(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    // SAFETY: the program's own arguments, handed on as it gave them.
    unsafe {
        let pass = || real()(number, a, b, c, d, e, f);
        match number {
            libc::SYS_fork | libc::SYS_clone | libc::SYS_clone3 => process::forking(|| pass() as c_int) as _,
            libc::SYS_vfork => process::vfork::hooked() as _,
            libc::SYS_execve => exec::execve::hooked(a as _, b as _, c as _) as _,
            libc::SYS_execveat => exec::execveat::hooked(a as _, b as _, c as _, d as _, e as _) as _,
            libc::SYS_exit_group => process::_exit::hooked(a as _),
            libc::SYS_prctl => confinement::prctl::hooked(a as _, b as _, c as _, d as _, e as _) as _,
            libc::SYS_chroot => confinement::chroot::hooked(a as _) as _,
            libc::SYS_mlockall => confinement::mlockall::hooked(a as _) as _,
            libc::SYS_setrlimit => limits::setrlimit::hooked(a as _, b as _) as _,
            libc::SYS_getrlimit => limits::getrlimit::hooked(a as _, b as _) as _,
            libc::SYS_prlimit64 => limits::prlimit::hooked(a as _, b as _, c as _, d as _) as _,
            libc::SYS_seccomp => {
                api::before_sandbox();
                pass()
            }
            libc::SYS_io_uring_setup => io_uring::making(b, pass),
            libc::SYS_io_uring_enter => io_uring::entering(a, b, d, |to_submit, flags| real()(number, a, to_submit, c, flags, e, f)),
            libc::SYS_io_uring_register => {
                io_uring::registering(a, b, c, d);
                pass()
            }
            _ => pass(),
        }
    }
}

/// ppoll and pselect6 as the kernel has them: the time that is left is written back.
unsafe fn timed(
    time: usize,
    mask: usize,
    size: usize,
    verdict: impl FnOnce(*const timespec, *const sigset_t) -> Verdict,
    pass: impl FnOnce() -> c_long,
) -> c_long {
    let time = time as *mut timespec;
    // SAFETY: the program's own time, null or valid.
    unsafe {
        if (mask != 0 && size != SET_SIZE) || !api::has_connections() {
            return pass();
        }
        let Some(before) = api::load_if_any(time) else {
            return pass();
        };
        let start = readiness::now();
        let result = match verdict(time, mask as *const sigset_t) {
            Verdict::Bypass | Verdict::Kernel(_) | Verdict::Counted(_) | Verdict::Young(_) => {
                return pass();
            }
            Verdict::Done(count) => count as c_long,
            Verdict::Fail(error) => errno::fail(error) as c_long,
        };
        if let Some(before) = before {
            // As in the kernel, a time that cannot be written is left as it is.
            api::store(time, readiness::left(&before, &start));
        }
        result
    }
}
