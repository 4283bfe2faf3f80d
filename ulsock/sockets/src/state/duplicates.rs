//! The numbers that were made by dup: one of them may be meant for a child, also when the number that it was made from
//! has been closed since.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// A bit for each number that can be a connection.
const WORDS: usize = (1 << 20) / 64;

os::process_wide! {
    static DUPLICATES: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
}

fn place(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let word = DUPLICATES.get(fd as u32 as usize / 64)?;
    Some((word, 1 << (fd as u32 % 64)))
}

pub fn add(fd: RawFd) {
    if let Some((word, bit)) = place(fd) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// The number means something else.
pub fn remove(fd: RawFd) {
    if let Some((word, bit)) =
        place(fd).filter(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}

pub fn has(fd: RawFd) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_that_were_added() {
        for fd in [0, 63, 64, 1 << 19] {
            add(fd);
            assert!(has(fd) && !has(fd + 1));
            remove(fd);
            assert!(!has(fd));
        }
        add(-1);
        add(1 << 20);
        assert!(!has(-1) && !has(1 << 20));
    }
}
