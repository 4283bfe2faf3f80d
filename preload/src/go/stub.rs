//! Where the jumps lead: what the function does before its system call is done here, then either we do the call, and the
//! function goes on behind it, or the function does it.
//!
//! Go's rules at a call (Go's src/cmd/compile/abi-internal.md): all registers are the caller's to save but the stack
//! pointer, the frame pointer, r14 (the goroutine) and xmm15 (zero). A goroutine's stack has some hundred bytes left here,
//! of which nothing is used: what is ours runs on a stack of ours (`stack`). Nothing of this is seen by Go's scheduler:
//! addresses of ours are none of Go's functions, where it never preempts.

use std::arch::{global_asm, naked_asm};
use std::sync::atomic::{AtomicUsize, Ordering};

use golang::Function;

use super::calls::{KINDS, NUMBERS, SPAWNS, call};
use super::stack;

/// Where the system call of each function is. Written before the program begins.
static SYSCALL6: AtomicUsize = AtomicUsize::new(0);
static EXIT: AtomicUsize = AtomicUsize::new(0);
static WRITE: AtomicUsize = AtomicUsize::new(0);
static EPOLL_CREATE: AtomicUsize = AtomicUsize::new(0);
static EPOLL_CTL: AtomicUsize = AtomicUsize::new(0);
static EPOLL_WAIT: AtomicUsize = AtomicUsize::new(0);
static VFORK: AtomicUsize = AtomicUsize::new(0);

/// Our address for the jump of a function whose system call is there.
pub fn of(function: Function, call: usize) -> usize {
    type Stub = unsafe extern "C" fn();
    let (stub, place): (Stub, &AtomicUsize) = match function {
        Function::Syscall6 => (syscall6, &SYSCALL6),
        Function::Exit => (exit, &EXIT),
        Function::Write => (write1, &WRITE),
        Function::EpollCreate => (epollcreate1, &EPOLL_CREATE),
        Function::EpollCtl => (epollctl, &EPOLL_CTL),
        Function::EpollWait => (epollwait, &EPOLL_WAIT),
        Function::Vfork1 => (vfork1, &VFORK),
        Function::Vfork2 => (vfork2, &VFORK),
        Function::Vfork3 => (vfork3, &VFORK),
    };
    place.store(call, Ordering::Relaxed);
    stub as usize
}

// What a thread has for this: see `stack::Block`.
global_asm!(
    ".pushsection .tbss.ulsock_go, \"awT\", @nobits",
    ".hidden ulsock_go",
    ".globl ulsock_go",
    ".type ulsock_go, @object",
    ".size ulsock_go, 96",
    ".p2align 3",
    "ulsock_go: .zero 96",
    ".popsection",
);

/// A function that was called with its arguments on the stack (ABI0), behind the return address.
macro_rules! stubs {
    ($($(#[$meta:meta])* $name:ident -> $place:ident { $($line:literal),* $(,)? })*) => {
        $(
            $(#[$meta])*
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                naked_asm!(
                    $($line,)*
                    "mov r12, [rip + {place}]",
                    "jmp {enter}",
                    place = sym $place,
                    enter = sym enter,
                )
            }
        )*
    };
}

stubs! {
    /// With its arguments in registers (ABIInternal).
    syscall6 -> SYSCALL6 {
        "mov r10, rsi",
        "mov rdx, rdi",
        "mov rsi, rcx",
        "mov rdi, rbx",
    }
    exit -> EXIT {
        "mov edi, [rsp + 8]",
        "mov eax, 231",
    }
    write1 -> WRITE {
        "mov rdi, [rsp + 8]",
        "mov rsi, [rsp + 16]",
        "mov edx, [rsp + 24]",
        "mov eax, 1",
    }
    epollcreate1 -> EPOLL_CREATE {
        "mov edi, [rsp + 8]",
        "mov eax, 291",
    }
    epollctl -> EPOLL_CTL {
        "mov edi, [rsp + 8]",
        "mov esi, [rsp + 12]",
        "mov edx, [rsp + 16]",
        "mov r10, [rsp + 24]",
        "mov eax, 233",
    }
    epollwait -> EPOLL_WAIT {
        "mov edi, [rsp + 8]",
        "mov rsi, [rsp + 16]",
        "mov edx, [rsp + 24]",
        "mov r10d, [rsp + 28]",
        "xor r8d, r8d",
        "mov eax, 281",
    }
}

/// The arguments of `rawVforkSyscall`, of which versions have one, two or three.
macro_rules! vforks {
    ($($name:ident { $second:literal, $third:literal })*) => {
        $(
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                naked_asm!(
                    "mov rdi, [rsp + 16]",
                    $second,
                    $third,
                    "xor r10d, r10d",
                    "xor r8d, r8d",
                    "xor r9d, r9d",
                    // Not its number yet: first what has to be done before it.
                    "mov eax, {spawns}",
                    "lea r12, [rip + {vfork}]",
                    "jmp {enter}",
                    spawns = const SPAWNS,
                    vfork = sym vfork,
                    enter = sym enter,
                )
            }
        )*
    };
}

vforks! {
    vfork1 { "xor esi, esi", "xor edx, edx" }
    vfork2 { "mov rsi, [rsp + 24]", "xor edx, edx" }
    vfork3 { "mov rsi, [rsp + 24]", "mov rdx, [rsp + 32]" }
}

/// The call of `rawVforkSyscall`, whose child runs on this very memory, as this thread, until it has become another
/// program: until then all its calls are the kernel's. The return address would be overwritten by the child's calls.
#[unsafe(naked)]
unsafe extern "C" fn vfork() {
    naked_asm!(
        "mov rax, [rsp + 8]",
        "mov r13, fs:[0]",
        "add r13, [rip + ulsock_go@GOTTPOFF]",
        "mov r15, [rip + {place}]",
        "mov qword ptr [r13 + 24], 1",
        "pop r12",
        "syscall",
        "push r12",
        "test rax, rax",
        "jz 2f",
        "mov qword ptr [r13 + 24], 0",
        "2:",
        // Behind its own call and push.
        "add r15, 4",
        "jmp r15",
        place = sym VFORK,
    )
}

/// A system call with its registers as the kernel wants them; r12 is the address of the instruction. It goes on there if
/// the call is not ours, and else behind it with the kernel's answer in rax.
#[unsafe(naked)]
unsafe extern "C" fn enter() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "cmp rax, {numbers}",
        "jae 9f",
        "lea r11, [rip + {kinds}]",
        "cmp byte ptr [r11 + rax], 0",
        "je 9f",
        "2:",
        "mov r13, fs:[0]",
        "add r13, [rip + ulsock_go@GOTTPOFF]",
        "cmp qword ptr [r13 + 24], 0",
        "jne 9f",
        // A handler may have interrupted a call of ours, on the first stack. Deeper it does not go.
        "mov r15, [r13 + 16]",
        "cmp r15, 2",
        "jae 9f",
        "mov r11, [r13 + 8 * r15]",
        "test r11, r11",
        "jz 5f",
        "inc qword ptr [r13 + 16]",
        "mov [r11 - 8], rsp",
        "mov [r11 - 16], rbp",
        "mov [r11 - 24], r12",
        "lea rsp, [r11 - 32]",
        "push r9; push r8; push r10",
        "push rdx; push rsi; push rdi",
        "mov rdi, rax",
        "mov rsi, rsp",
        // Kept across the call by the System V ABI: r12 to r15.
        "mov r15, rax",
        "call {call}",
        "mov rcx, rdx",
        "mov r11, rax",
        "pop rdi; pop rsi; pop rdx",
        "pop r10; pop r8; pop r9",
        "mov rbp, [rsp + 16]",
        "mov rsp, [rsp + 24]",
        "dec qword ptr [r13 + 16]",
        "xorps xmm15, xmm15",
        "test rcx, rcx",
        "jnz 8f",
        "mov rax, r11",
        "add r12, 2",
        "jmp r12",
        // The kernel's after all.
        "8:",
        "mov rax, r15",
        "9:",
        "jmp r12",
        "5:",
        "jmp {first_call}",
        ".cfi_endproc",
        numbers = const NUMBERS,
        kinds = sym KINDS,
        call = sym call,
        first_call = sym first_call,
    )
}

/// The first call of this thread: a mapping for its stacks, by a system call without any. Meanwhile handlers' calls are the
/// kernel's. Registers as for `enter`.
#[unsafe(naked)]
unsafe extern "C" fn first_call() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "mov qword ptr [r13 + 16], 2",
        "mov [r13 + 32], rax; mov [r13 + 40], rdi; mov [r13 + 48], rsi; mov [r13 + 56], rdx",
        "mov [r13 + 64], r10; mov [r13 + 72], r8; mov [r13 + 80], r9",
        "mov eax, 9",
        "xor edi, edi",
        "mov esi, {size}",
        "mov edx, 3",
        "mov r10d, {flags}",
        "mov r8, -1",
        "xor r9d, r9d",
        "syscall",
        "cmp rax, -4095",
        "jae 6f",
        "mov r15, rsp",
        "lea rsp, [rax + {first_end}]",
        "mov rdi, rax",
        "mov rsi, r13",
        "call {begin}",
        "mov rsp, r15",
        "xorps xmm15, xmm15",
        "mov rax, [r13 + 32]; mov rdi, [r13 + 40]; mov rsi, [r13 + 48]; mov rdx, [r13 + 56]",
        "mov r10, [r13 + 64]; mov r8, [r13 + 72]; mov r9, [r13 + 80]",
        "mov qword ptr [r13 + 16], 0",
        "jmp {enter}",
        // No memory: the call fails so. On a connection in rings the kernel's answer would be wrong. The end of the program,
        // and a child, are the kernel's.
        "6:",
        "mov r11, rax",
        "mov rax, [r13 + 32]; mov rdi, [r13 + 40]; mov rsi, [r13 + 48]; mov rdx, [r13 + 56]",
        "mov r10, [r13 + 64]; mov r8, [r13 + 72]; mov r9, [r13 + 80]",
        "mov qword ptr [r13 + 16], 0",
        "cmp rax, {exit}",
        "je 9f",
        "cmp rax, {spawns}",
        "je 9f",
        "mov rax, r11",
        "add r12, 2",
        "jmp r12",
        "9:",
        "jmp r12",
        ".cfi_endproc",
        enter = sym enter,
        begin = sym stack::begin,
        size = const stack::SIZE,
        first_end = const stack::FIRST_END,
        flags = const stack::FLAGS,
        exit = const libc::SYS_exit_group,
        spawns = const SPAWNS,
    )
}
