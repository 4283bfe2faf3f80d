//! Writes the jumps. The program's own code has not run yet, and runs in no other thread.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::copy_nonoverlapping;

use golang::{Found, Patch, Program};
use libc::{MAP_FIXED, MAP_PRIVATE, PROT_EXEC, PROT_READ, PROT_WRITE, c_int};

use super::{program, stub};

const PAGE: usize = 4096;
const PROGRAM: &str = "/proc/self/exe";

/// All functions, or none.
pub fn write(program: &Program, base: usize) -> io::Result<()> {
    let file = File::open(PROGRAM)?;
    let mut pages: Vec<usize> = Vec::new();
    for found in &program.functions {
        let begin = base + found.address as usize;
        pages.extend((begin & !(PAGE - 1)..begin + found.patch.reach()).step_by(PAGE));
    }
    pages.sort_unstable();
    pages.dedup();
    let done = protect(&pages, PROT_READ | PROT_WRITE).and_then(|()| {
        program.functions.iter().for_each(|found| jump(found, base));
        // From here on a call may come at any time.
        protect(&pages, PROT_READ | PROT_EXEC)
    });
    if done.is_err() {
        restore(&pages, &file);
    }
    done
}

/// Never to be written and executed at the same time.
fn protect(pages: &[usize], how: c_int) -> io::Result<()> {
    pages.iter().try_for_each(|page| {
        // SAFETY: a page of the program's code, which does not run now.
        match unsafe { libc::mprotect(*page as *mut _, PAGE, how) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    })
}

fn jump(found: &Found, base: usize) {
    let at = (base + found.address as usize) as *mut u8;
    let pointer = stub::of(found.function, base + found.call as usize).to_ne_bytes();
    // SAFETY: the whole patch lies in pages that may be written, over instructions that were compared.
    unsafe {
        copy_nonoverlapping(pointer.as_ptr(), at.add(found.patch.pointer), pointer.len());
        copy_nonoverlapping(found.patch.jump().as_ptr(), at, Patch::JUMP);
    }
}

/// A system may refuse to execute what was changed (systemd's MemoryDenyWriteExecute, SELinux's execmod): then the pages
/// come from the file once more.
fn restore(pages: &[usize], file: &File) {
    let (how, flags) = (PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED);
    for page in pages {
        let Some(offset) = program::place_in_file(*page) else {
            continue;
        };
        // SAFETY: a page of the program's code, which becomes again what it was.
        unsafe { libc::mmap(*page as *mut _, PAGE, how, flags, file.as_raw_fd(), offset) };
    }
}
