//! The stacks of a thread for our part of its calls: one, and another for the calls of a handler that has interrupted it
//! there. They come with the thread's first call, and go with the thread. Pages that are not used cost nothing.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{MAP_ANONYMOUS, MAP_NORESERVE, MAP_PRIVATE, MAP_STACK, PROT_NONE};
use sockets::api::{self, Shown};

const PAGE: usize = 4096;
const FIRST: usize = 256 << 10;
const SECOND: usize = 128 << 10;
/// Each has a page before it that must not be touched.
pub const SIZE: usize = PAGE + FIRST + PAGE + SECOND;
/// Where the first one ends.
pub const FIRST_END: usize = PAGE + FIRST;
pub const FLAGS: i32 = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;

/// What a thread has, in its own variable `ulsock_go`, which the stubs read by these places.
#[repr(C)]
pub struct Block {
    /// The ends of both stacks; null before the first call.
    tops: [usize; 2],
    /// How many of them are in use.
    depth: usize,
    /// A child runs on the thread's memory that will become another program.
    spawning: usize,
    /// The registers of the first call, while it has no stack.
    saved: [usize; 7],
    /// The mapping.
    base: usize,
}

const _: () = assert!(size_of::<Block>() == 96);

/// By it a thread that ends is told.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Load time.
pub fn init() -> bool {
    let mut key = 0;
    // SAFETY: a place for the key.
    let made = unsafe { libc::pthread_key_create(&mut key, Some(ended)) } == 0;
    if made {
        KEY.store(key, Ordering::Relaxed);
        api::disguise(shown);
    }
    made
}

/// A mapping for this thread, on whose first stack we run now.
pub unsafe extern "C" fn begin(base: usize, block: *mut Block) {
    // SAFETY: the thread's own block, and pages of the mapping that nobody has used.
    unsafe {
        for guard in [base, base + FIRST_END] {
            libc::mprotect(guard as *mut c_void, PAGE, PROT_NONE);
        }
        (*block).base = base;
        (*block).tops = [base + FIRST_END, base + SIZE];
        libc::pthread_setspecific(KEY.load(Ordering::Relaxed), block.cast());
    }
}

/// The thread ends, on libc's stack.
unsafe extern "C" fn ended(block: *mut c_void) {
    let block = block.cast::<Block>();
    // SAFETY: the value that `begin` has set: this thread's block, which lives as long as it.
    unsafe {
        // A handler that comes behind this gets another mapping, which is left.
        let base = (*block).base;
        (*block).tops = [0; 2];
        libc::munmap(base as *mut c_void, SIZE);
    }
}

/// What a call has left at the end of its stack, the last first.
#[repr(C)]
struct Caller {
    call: usize,
    frame: usize,
    stack: usize,
}

/// The length of a system call instruction.
const CALL: usize = 2;

/// A thread on a stack of ours is shown in its system call.
fn shown(stack: usize) -> Option<Shown> {
    // SAFETY: this thread's own block.
    let block = unsafe { &*own() };
    let used = block.depth.checked_sub(1)?;
    let (top, size) = (*block.tops.get(used)?, [FIRST, SECOND][used]);
    // Until the call has left its stack for ours, and when it goes back, it is not there.
    let place = top.checked_sub(size_of::<Caller>())?;
    (top - size..=place).contains(&stack).then_some(())?;
    // SAFETY: `enter` has filled it before it changed the stack.
    let caller = unsafe { &*(place as *const Caller) };
    Some(Shown {
        instruction: caller.call + CALL,
        stack: caller.stack,
        frame: caller.frame,
    })
}

fn own() -> *const Block {
    let block;
    // SAFETY: the address of this thread's variable, by the initial-exec model of the ELF TLS ABI.
    unsafe {
        std::arch::asm!(
            "mov {block}, qword ptr fs:[0]",
            "add {block}, qword ptr [rip + ulsock_go@GOTTPOFF]",
            block = out(reg) block,
            options(pure, readonly, nostack),
        );
    }
    block
}
