//! The door to a sleep: a system call that is not made once a signal handler has run.
//!
//! To look whether a handler has run and then to make the call are two steps, and a handler may come
//! between them: its sleeper would not notice it. So both steps are in one short piece of code, and
//! [`turn_back`] leads a thread that is interrupted within it out again, as if the call itself had
//! been interrupted. That saves blocking all signals before each sleep and letting them in again
//! afterwards, two system calls.

use std::arch::global_asm;
use std::sync::atomic::AtomicBool;

use libc::{REG_RIP, c_long, ucontext_t};
use rustix::io::Errno;

use super::raw::answer;

global_asm!(
    ".pushsection .text.ulsock_door,\"ax\",@progbits",
    ".p2align 4",
    ".globl ulsock_door",
    ".hidden ulsock_door",
    ".globl ulsock_door_look",
    ".hidden ulsock_door_look",
    ".globl ulsock_door_called",
    ".hidden ulsock_door_called",
    ".globl ulsock_door_shut",
    ".hidden ulsock_door_shut",
    "ulsock_door:",
    ".cfi_startproc",
    // The kernel overwrites rcx and r11 only, and rax with its answer.
    "mov rcx, rdi",
    "mov r11, rsi",
    "mov rax, [r11]",
    "mov rdi, [r11 + 8]",
    "mov rsi, [r11 + 16]",
    "mov rdx, [r11 + 24]",
    "mov r10, [r11 + 32]",
    "mov r8, [r11 + 40]",
    "mov r9, [r11 + 48]",
    "ulsock_door_look:",
    "cmp byte ptr [rcx], 0",
    "je ulsock_door_shut",
    "syscall",
    "ulsock_door_called:",
    "ret",
    "ulsock_door_shut:",
    "mov rax, {interrupted}",
    "ret",
    ".cfi_endproc",
    ".popsection",
    interrupted = const -libc::EINTR,
);

unsafe extern "C" {
    fn ulsock_door(open: *const AtomicBool, call: *const [usize; 7]) -> usize;
    static ulsock_door_look: u8;
    static ulsock_door_called: u8;
    static ulsock_door_shut: u8;
}

static ALWAYS: AtomicBool = AtomicBool::new(true);

/// Open while its word says so; whoever shuts it is a handler of the thread that goes through.
#[derive(Clone, Copy)]
pub struct Door<'a>(&'a AtomicBool);

impl<'a> Door<'a> {
    pub fn new(open: &'a AtomicBool) -> Door<'a> {
        Door(open)
    }

    /// Of a call that does not wait.
    pub fn always_open() -> Door<'static> {
        Door(&ALWAYS)
    }

    /// Makes the call; EINTR if the door is shut.
    ///
    /// # Safety
    /// As the system call of this number.
    pub unsafe fn syscall<const N: usize>(
        self,
        number: c_long,
        args: [usize; N],
    ) -> Result<usize, Errno> {
        const { assert!(N <= 6) };
        let mut call = [0; 7];
        call[0] = number as usize;
        call[1..=N].copy_from_slice(&args);
        // SAFETY: two live pointers; the arguments are right for the call, as the caller promises.
        answer(unsafe { ulsock_door(self.0, &call) })
    }
}

/// The thread that `context` interrupts, if it stands in the door, goes back. Its door is shut.
pub fn turn_back(context: &mut ucontext_t) {
    let at = &mut context.uc_mcontext.gregs[REG_RIP as usize];
    let look = &raw const ulsock_door_look as i64;
    let called = &raw const ulsock_door_called as i64;
    if (look..called).contains(at) {
        *at = &raw const ulsock_door_shut as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_and_shut() {
        let pid = std::process::id() as usize;
        let open = AtomicBool::new(true);
        // SAFETY: calls without pointers.
        unsafe {
            assert_eq!(Door::new(&open).syscall(libc::SYS_getpid, []), Ok(pid));
            open.store(false, std::sync::atomic::Ordering::Relaxed);
            let refused = Door::new(&open).syscall(libc::SYS_getpid, []);
            assert_eq!(refused, Err(Errno::INTR));
            let bad = Door::always_open().syscall(libc::SYS_close, [usize::MAX]);
            assert_eq!(bad, Err(Errno::BADF));
        }
    }

    #[test]
    fn back_from_every_instruction_before_the_call() {
        // SAFETY: all zero is a valid context.
        let mut context: ucontext_t = unsafe { std::mem::zeroed() };
        let mut after = |at: i64| {
            context.uc_mcontext.gregs[REG_RIP as usize] = at;
            turn_back(&mut context);
            context.uc_mcontext.gregs[REG_RIP as usize]
        };
        let look = &raw const ulsock_door_look as i64;
        let called = &raw const ulsock_door_called as i64;
        let shut = &raw const ulsock_door_shut as i64;
        assert_eq!(after(look - 1), look - 1);
        assert!((look..called).all(|at| after(at) == shut));
        assert_eq!(after(called), called);
    }
}
