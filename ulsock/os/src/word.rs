//! One word of the thread's own, for its `sockets::runtime::thread::Thread`.
//!
//! A library's thread-local variables are found by a call into the dynamic linker. This one lies at a
//! distance from the thread pointer that is known once the library is loaded, as it is before the
//! program starts: two loads, also in a signal handler.

#[cfg(target_arch = "x86_64")]
mod place {
    use std::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.ulsock_word, \"awT\", @nobits",
        ".hidden ulsock_word",
        ".globl ulsock_word",
        ".type ulsock_word, @object",
        ".size ulsock_word, 8",
        ".p2align 3",
        "ulsock_word: .zero 8",
        ".popsection",
    );

    #[inline(always)]
    pub fn get() -> usize {
        let word: usize;
        // SAFETY: loads the variable above, by the initial-exec model of the ELF TLS ABI.
        unsafe {
            asm!(
                "mov {word}, qword ptr [rip + ulsock_word@GOTTPOFF]",
                "mov {word}, qword ptr fs:[{word}]",
                word = out(reg) word,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        word
    }

    #[inline(always)]
    pub fn set(word: usize) {
        // SAFETY: stores to the variable above, which nobody refers to.
        unsafe {
            asm!(
                "mov {at}, qword ptr [rip + ulsock_word@GOTTPOFF]",
                "mov qword ptr fs:[{at}], {word}",
                at = out(reg) _,
                word = in(reg) word,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod place {
    use std::cell::Cell;

    thread_local! {
        static WORD: Cell<usize> = const { Cell::new(0) };
    }

    pub fn get() -> usize {
        WORD.get()
    }

    pub fn set(word: usize) {
        WORD.set(word);
    }
}

#[cfg(not(feature = "runtimes"))]
pub use place::{get, set};

/// In a unit test a thread has one in each runtime that it acts as.
#[cfg(feature = "runtimes")]
mod by_runtime {
    use std::cell::RefCell;
    use std::collections::HashMap;

    use super::place;
    use crate::process_wide::current;

    thread_local! {
        static WORDS: RefCell<HashMap<u32, usize>> = RefCell::default();
    }

    pub fn get() -> usize {
        match current() {
            0 => place::get(),
            runtime => WORDS.with_borrow(|words| words.get(&runtime).copied().unwrap_or(0)),
        }
    }

    pub fn set(word: usize) {
        match current() {
            0 => place::set(word),
            runtime => {
                WORDS.with_borrow_mut(|words| words.insert(runtime, word));
            }
        }
    }
}

#[cfg(feature = "runtimes")]
pub use by_runtime::{get, set};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own() {
        let before = get();
        set(7);
        let theirs = std::thread::spawn(|| {
            let first = get();
            set(8);
            (first, get())
        });
        assert_eq!(theirs.join().expect("a thread"), (0, 8));
        assert_eq!(get(), 7);
        set(before);
    }
}
