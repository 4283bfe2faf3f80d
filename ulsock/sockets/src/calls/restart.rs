//! A kernel call that SA_RESTART restarts on a number that means a connection by now.
//!
//! When the handler has returned, the kernel makes an interrupted call again by itself: the thread finds itself in front
//! of its `syscall` instruction once more. That is right as long as the number means what it meant. If it means another
//! connection by now (another thread or the handler has called dup2), bytes for the call may come by a ring, where the
//! kernel does not look. So the thread is led into our hook of that call instead, and from there behind the
//! instruction. Calls that no such handler interrupts pay nothing for this.

use std::arch::naked_asm;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{REG_RAX, REG_RCX, REG_RDI, REG_RDX, REG_RIP, c_int, c_long, dl_phdr_info, ucontext_t};

use crate::runtime::cancel;
use crate::runtime::thread::Thread;
use crate::runtime::way::Way;
use crate::state::record::State;
use crate::state::table::{self, Slot};
use crate::state::young;

/// The hook of a system call, by the call's number: -1 and `errno` when it fails.
pub type Hooked = unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;

/// The `syscall` instruction.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

os::process_wide! {
    static HOOKED: AtomicUsize = AtomicUsize::new(0);
    /// The code of libc. Where it makes a system call no vector register is in use: these are functions, and their callers
    /// do not expect them to be kept.
    static CODE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
}

/// Load time; `within` is an address in libc's code.
pub fn init(hooked: Hooked, within: usize) {
    HOOKED.store(hooked as usize, Ordering::Relaxed);
    let within = (&raw const within).cast_mut();
    // SAFETY: the callback gets the pointer to our argument, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(find_code), within.cast()) };
}

/// Stores the bounds of the code that the address lies in.
unsafe extern "C" fn find_code(info: *mut dl_phdr_info, _: usize, within: *mut c_void) -> c_int {
    // SAFETY: the loader's list of this object's segments, and the argument of `init`.
    let (base, segments, within) = unsafe {
        let info = &*info;
        let segments = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        (info.dlpi_addr as usize, segments, *within.cast::<usize>())
    };
    for segment in segments {
        let start = base.wrapping_add(segment.p_vaddr as usize);
        let end = start.wrapping_add(segment.p_memsz as usize);
        let is_code = segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_X != 0;
        if is_code && (start..end).contains(&within) {
            CODE[0].store(start, Ordering::Relaxed);
            CODE[1].store(end, Ordering::Relaxed);
            return 1;
        }
    }
    0
}

/// A handler has run that interrupted the thread at the place in `context`.
pub fn lead(context: &mut ucontext_t) {
    let registers = &mut context.uc_mcontext.gregs;
    let at = registers[REG_RIP as usize] as usize;
    let argument = |register: c_int| registers[register as usize] as c_int;
    let (first, third) = (argument(REG_RDI), argument(REG_RDX));
    let number = registers[REG_RAX as usize];
    if stands_before_call(at) && calls_ours(number, first, third) {
        // Where the kernel itself leaves it.
        registers[REG_RCX as usize] = (at + SYSCALL.len()) as i64;
        registers[REG_RIP as usize] = by_hook as *const () as i64;
    }
}

fn stands_before_call(at: usize) -> bool {
    let [start, end] = [&CODE[0], &CODE[1]].map(|bound| bound.load(Ordering::Relaxed));
    // SAFETY: within the code of a library that stays loaded.
    (start..end.saturating_sub(1)).contains(&at) && unsafe { *(at as *const [u8; 2]) } == SYSCALL
}

/// Does the call of this number move bytes of a connection that it was not made on?
fn calls_ours(number: i64, first: c_int, third: c_int) -> bool {
    match number {
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_preadv2
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg => is_another(first, Way::In),
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwritev2
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg
        | libc::SYS_sendfile => is_another(first, Way::Out),
        libc::SYS_splice => is_another(first, Way::In) || is_another(third, Way::Out),
        _ => false,
    }
}

/// Does the number mean something that the interrupted call was not made on, and that is not the kernel's alone?
fn is_another(fd: c_int, way: Way) -> bool {
    let number = match table::get(fd) {
        Slot::Record(number) => number,
        Slot::Internal => return true,
        Slot::Foreign | Slot::Fresh | Slot::Listener | Slot::Epoll(_) | Slot::Uring(_) => {
            return false;
        }
        // What it moves must be counted.
        Slot::Young(_) => return !young::is_inside(fd, way),
    };
    let Some(record) = crate::state::process_group::own().map(|family| family.record(number))
    else {
        return false;
    };
    match record.state() {
        State::Plain if record.stays_on_kernel() => false,
        // Who made the call on it is inside its gate, and its bytes come by the kernel until he leaves.
        State::Plain | State::Managed => {
            !Thread::known().is_some_and(|me| me.bed().flights.newest_is(record, way))
                && !young::has_calls_inside(fd, number, way)
        }
        State::Free | State::Out => false,
    }
}

/// In place of a `syscall` instruction, with its registers; in rcx is where to go on. The 128 bytes below the stack
/// pointer may be in use.
#[unsafe(naked)]
unsafe extern "C" fn by_hook() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa rsp, 0",
        ".cfi_register rip, rcx",
        "lea rsp, [rsp - 128]",
        ".cfi_def_cfa_offset 128",
        "push rcx",
        ".cfi_def_cfa_offset 136",
        ".cfi_offset rip, -136",
        "push rbp",
        ".cfi_def_cfa_offset 144",
        ".cfi_offset rbp, -144",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push r9",
        "push r8",
        "push r10",
        "push rdx",
        "push rsi",
        "push rdi",
        "push rax",
        "mov rdi, rsp",
        "and rsp, -16",
        "call {again}",
        "lea rsp, [rbp - 48]",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop r10",
        "pop r8",
        "pop r9",
        "pop rbp",
        ".cfi_def_cfa rsp, 136",
        ".cfi_restore rbp",
        "pop rcx",
        ".cfi_def_cfa_offset 128",
        ".cfi_register rip, rcx",
        "lea rsp, [rsp + 128]",
        ".cfi_def_cfa_offset 0",
        "jmp rcx",
        ".cfi_endproc",
        again = sym again,
    )
}

/// The call by its hook, with the kernel's kind of result. libc's functions let a cancellation act at any instruction
/// while they are in the kernel, and ours must not be left so.
unsafe extern "C" fn again(call: *const [usize; 7]) -> isize {
    let hooked = HOOKED.load(Ordering::Relaxed);
    // SAFETY: stored by `init`; `by_hook` has put number and arguments of the program's own call there.
    cancel::deferred(|| unsafe {
        let hooked = std::mem::transmute::<usize, Hooked>(hooked);
        let [number, a, b, c, d, e, f] = *call;
        let errno = libc::__errno_location();
        let before = *errno;
        match hooked(number as c_long, a, b, c, d, e, f) {
            -1 => -std::mem::replace(&mut *errno, before) as isize,
            result => result as isize,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::young::Entered;
    use crate::testing::World;
    use std::arch::asm;

    unsafe extern "C" fn sum(
        n: c_long,
        a: usize,
        b: usize,
        c: usize,
        d: usize,
        e: usize,
        f: usize,
    ) -> c_long {
        n + [a, b, c, d, e, f].iter().sum::<usize>() as c_long
    }

    unsafe extern "C" fn fails(
        _: c_long,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
    ) -> c_long {
        // SAFETY: this thread's own.
        unsafe { *libc::__errno_location() = libc::ENOTCONN };
        -1
    }

    /// As the kernel leaves a thread that is led into `by_hook`: all registers but rax, rcx and r11 are kept.
    fn by_hook_with(number: usize, base: usize) -> usize {
        let result;
        let (mut a, mut b, mut c, mut d, mut e, mut f) =
            (base, base + 1, base + 2, base + 3, base + 4, base + 5);
        // SAFETY: what `by_hook` asks for; it returns to the label with the stack as it was.
        unsafe {
            asm!(
                "lea rcx, [rip + 2f]",
                "jmp {by_hook}",
                "2:",
                by_hook = sym by_hook,
                inlateout("rax") number => result,
                inlateout("rdi") a, inlateout("rsi") b, inlateout("rdx") c,
                inlateout("r10") d, inlateout("r8") e, inlateout("r9") f,
                clobber_abi("C"),
            );
        }
        assert_eq!([a, b, c, d, e, f], [0, 1, 2, 3, 4, 5].map(|n| base + n));
        result
    }

    #[test]
    fn in_place_of_a_system_call() {
        HOOKED.store(sum as Hooked as usize, Ordering::Relaxed);
        assert_eq!(by_hook_with(1000, 10), 1000 + 75);
        HOOKED.store(fails as Hooked as usize, Ordering::Relaxed);
        // SAFETY: this thread's own.
        unsafe { *libc::__errno_location() = libc::EDOM };
        assert_eq!(by_hook_with(1, 1) as i32, -libc::ENOTCONN);
        // SAFETY: this thread's own.
        assert_eq!(unsafe { *libc::__errno_location() }, libc::EDOM);
    }
    /// The number meant another socket when the call was made: a young connection counts its own calls alone.
    #[test]
    fn a_call_that_comes_to_a_young_connection_is_counted() {
        let world = World::over_unix();
        let fd = world.near.0;
        world.client.run(|| {
            let Slot::Young(life) = table::get(fd) else {
                panic!("it has no record yet");
            };
            assert!(is_another(fd, Way::In));
            let Entered::Young(call) = young::enter(fd, life, Way::In) else {
                panic!("it can be entered");
            };
            assert!(!is_another(fd, Way::In) && is_another(fd, Way::Out));
            call.done(0);
        });
    }
}
