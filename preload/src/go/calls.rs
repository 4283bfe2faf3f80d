//! What becomes of a call: the hook of libc's function of that number, with the kernel's answer for its result.

use libc::{c_int, c_long, c_void};
use os::mask;
use sockets::api::{self, First};

use super::patience;
use crate::{errno, numbers};

pub use numbers::NUMBERS;
/// No system call has this number: what `rawVforkSyscall` is about to do.
pub const SPAWNS: usize = NUMBERS - 1;

/// Which numbers may be ours: those of libc's `syscall`, and one of our own.
pub static KINDS: [u8; NUMBERS] = {
    let mut kinds = numbers::KINDS;
    kinds[SPAWNS] = 1;
    kinds
};

/// In two registers.
#[repr(C)]
pub struct Answer {
    /// As the kernel's: errors are small negative numbers.
    result: isize,
    /// Not zero: the kernel is to be asked, where Go would have.
    passes: usize,
}

const PASSES: Answer = Answer {
    result: 0,
    passes: 1,
};

fn is(result: isize) -> Answer {
    Answer { result, passes: 0 }
}

/// # Safety
/// As the system call of this number.
pub unsafe extern "C" fn call(number: usize, arguments: &[usize; 6]) -> Answer {
    let [a, b, c, ..] = *arguments;
    // SAFETY: the program's own buffers, as it gave them.
    unsafe {
        match number as c_long {
            libc::SYS_read => read(a as _, b as _, c, arguments),
            libc::SYS_write => begun(api::send_first(a as _, b as _, c, 0), number, arguments),
            // As from a file that cannot: io.Copy then copies by itself (spliceDrain in Go's internal/poll), and the connection
            // keeps its ring. One that was spliced from before has left its ring for good.
            libc::SYS_splice if is_of_io_copy(arguments) && api::is_better_copied(a as _) => {
                is(-libc::EINVAL as isize)
            }
            // A thread, or a child that becomes another program at once: on Go's own stack. Another child comes back here.
            libc::SYS_clone | libc::SYS_clone3 if !numbers::forks(number as c_long, a, b) => PASSES,
            _ if number == SPAWNS => {
                // Go has blocked all signals, and a fault that we would mend must come.
                let before = mask::current();
                mask::replace(before & !mask::FAULTS);
                api::before_vfork();
                mask::replace(before);
                PASSES
            }
            _ => hooked(number, arguments),
        }
    }
}

/// As `spliceDrain` calls it. Another call of the program itself gets what the kernel would answer.
fn is_of_io_copy(arguments: &[usize; 6]) -> bool {
    let [_, from, _, to, _, flags] = *arguments;
    from == 0 && to == 0 && flags == libc::SPLICE_F_NONBLOCK as usize
}

/// A read that finds nothing looks on for a moment.
unsafe fn read(fd: c_int, buffer: *mut c_void, len: usize, arguments: &[usize; 6]) -> Answer {
    let number = libc::SYS_read as usize;
    // SAFETY: as the caller says.
    unsafe {
        let answer = begun(api::recv_first(fd, buffer, len, 0), number, arguments);
        let is_empty = answer.passes == 0 && answer.result == -(libc::EAGAIN as isize);
        match is_empty && patience::look_on(fd) {
            true => begun(api::recv_first(fd, buffer, len, 0), number, arguments),
            false => answer,
        }
    }
}

/// A call with one buffer, which has usually been done at once.
unsafe fn begun(first: First, number: usize, arguments: &[usize; 6]) -> Answer {
    match first {
        First::Foreign => PASSES,
        First::Done(result) => is(result),
        First::Failed(error) => is(-error as isize),
        First::Young(young) => {
            // SAFETY: as the caller says.
            let answer = unsafe { kernel(number, arguments) };
            young.done(answer.max(-1));
            is(answer)
        }
        // SAFETY: as the caller says.
        First::Other => unsafe { hooked(number, arguments) },
    }
}

/// By the hook of this number, which answers as libc does.
unsafe fn hooked(number: usize, arguments: &[usize; 6]) -> Answer {
    let [a, b, c, d, e, f] = *arguments;
    // SAFETY: as the caller says.
    let result = unsafe { numbers::hooked(number as c_long, a, b, c, d, e, f) } as isize;
    match result {
        -1 => is(-errno::get() as isize),
        _ => is(result),
    }
}

unsafe fn kernel(number: usize, arguments: &[usize; 6]) -> isize {
    // SAFETY: as the caller says.
    match unsafe { os::raw::syscall(number as c_long, *arguments) } {
        Ok(result) => result as isize,
        Err(error) => -error.raw_os_error() as isize,
    }
}
