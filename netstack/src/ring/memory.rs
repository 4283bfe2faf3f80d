//! Ring memory that another process writes at the same time.
//!
//! The rules: no reference and no slice to such memory is ever made, only raw pointers for the
//! length of one copy; what was copied out is checked after the copy, never before. A giver and a
//! taker of bytes ([`Source`], [`Sink`]) see one contiguous piece at a time.

/// Gives bytes to a ring: the program's buffers, or a file.
pub trait Source {
    /// Puts the next up to `len` bytes at `to` and says how many; fewer means that no more come.
    ///
    /// # Safety
    /// `to` is valid for writes of `len` bytes.
    unsafe fn give(&mut self, to: *mut u8, len: usize) -> usize;

    /// The program's memory is not what it says: nothing of what was asked for last is to be sent.
    #[inline(always)]
    fn has_failed(&self) -> bool {
        false
    }
}

/// Takes bytes from a ring.
pub trait Sink {
    /// Takes `len` bytes from `from`; there is always room for them.
    ///
    /// # Safety
    /// `from` is valid for reads of `len` bytes.
    unsafe fn take(&mut self, from: *const u8, len: usize);

    /// The program's memory is not what it says: what was given last is not received.
    #[inline(always)]
    fn has_failed(&self) -> bool {
        false
    }
}

/// How far ahead of a small message cache lines are fetched.
pub const AHEAD: usize = 512;

/// The rings of one direction.
pub trait Memory {
    /// Writes up to `len` bytes into the ring of `level` from byte `at` on, without wrapping.
    fn fill<S>(&self, level: u8, at: usize, len: usize, from: &mut S) -> usize
    where
        S: Source + ?Sized;
    /// The [`AHEAD`] bytes from byte `at` on will be written soon. Their reader has the cache lines
    /// now; a line that is fetched only by the write delays the next publish.
    fn fetch(&self, _level: u8, _at: usize) {}
    /// A few bytes at byte `at` will be written very soon, and nobody has been there for a while.
    fn fetch_here(&self, _level: u8, _at: usize) {}
    /// Reads `len` bytes from byte `at` on, without wrapping.
    fn drain<S>(&self, level: u8, at: usize, len: usize, to: &mut S)
    where
        S: Sink + ?Sized;
}

/// Splits a piece of the stream at the ring's edge: (place, length) before and after it.
#[inline]
pub(super) fn pieces(offset: u64, len: u64, size: u64) -> [(usize, usize); 2] {
    let at = offset & (size - 1);
    let first = len.min(size - at);
    [(at as usize, first as usize), (0, (len - first) as usize)]
}

impl Source for &[u8] {
    unsafe fn give(&mut self, to: *mut u8, len: usize) -> usize {
        let n = len.min(self.len());
        // SAFETY: `to` takes `len` bytes by the trait's contract, and the slice has `n`.
        unsafe { core::ptr::copy_nonoverlapping(self.as_ptr(), to, n) };
        *self = &self[n..];
        n
    }
}

impl Sink for &mut [u8] {
    unsafe fn take(&mut self, from: *const u8, len: usize) {
        let n = len.min(self.len());
        let (now, rest) = core::mem::take(self).split_at_mut(n);
        // SAFETY: `from` gives `len` bytes by the trait's contract, and `now` has room for `n`.
        unsafe { core::ptr::copy_nonoverlapping(from, now.as_mut_ptr(), n) };
        *self = rest;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::pieces;

    #[test]
    fn splits_at_the_edge() {
        assert_eq!(pieces(10, 4, 16), [(10, 4), (0, 0)]);
        assert_eq!(pieces(30, 10, 16), [(14, 2), (0, 8)]);
        assert_eq!(pieces(16, 16, 16), [(0, 16), (0, 0)]);
    }
}
