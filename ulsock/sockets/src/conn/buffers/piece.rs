//! Buffers of calls that need no list of them: one, or a head and a body.

use netstack::ring::{Sink, Source};
use os::access;

/// The program's only buffer, which is used up at once. Behind a fault nothing is touched any more.
pub struct Piece {
    at: *mut u8,
    failed: bool,
}

impl Piece {
    #[inline(always)]
    pub fn new(at: *mut u8) -> Piece {
        Piece { at, failed: false }
    }
}

impl Source for Piece {
    #[inline(always)]
    unsafe fn give(&mut self, to: *mut u8, len: usize) -> usize {
        // SAFETY: the caller of `give` has room for `len` bytes at `to`; `access::copy` fails if the program's buffer is bad.
        self.failed = self.failed || unsafe { !access::copy(to, self.at, len) };
        self.at = self.at.wrapping_add(len);
        len
    }

    #[inline(always)]
    fn has_failed(&self) -> bool {
        self.failed
    }
}

/// A head and a body that are sent as one, both used up at once.
pub struct TwoPieces {
    head: Piece,
    /// Bytes of the head that are not given yet.
    left: usize,
    body: Piece,
}

impl TwoPieces {
    #[inline(always)]
    pub fn new(head: &[u8], body: &[u8]) -> TwoPieces {
        TwoPieces {
            head: Piece::new(head.as_ptr().cast_mut()),
            left: head.len(),
            body: Piece::new(body.as_ptr().cast_mut()),
        }
    }
}

impl Source for TwoPieces {
    #[inline(always)]
    unsafe fn give(&mut self, to: *mut u8, len: usize) -> usize {
        let of_head = len.min(self.left);
        self.left -= of_head;
        // SAFETY: the caller of `give` has room for `len` bytes at `to`.
        unsafe {
            self.head.give(to, of_head);
            self.body.give(to.add(of_head), len - of_head);
        }
        len
    }

    #[inline(always)]
    fn has_failed(&self) -> bool {
        self.head.failed || self.body.failed
    }
}

impl Sink for Piece {
    #[inline(always)]
    unsafe fn take(&mut self, from: *const u8, len: usize) {
        // SAFETY: the caller of `take` has `len` bytes at `from`; `access::copy` fails if the program's buffer is bad.
        self.failed = self.failed || unsafe { !access::copy(self.at, from, len) };
        self.at = self.at.wrapping_add(len);
    }

    #[inline(always)]
    fn has_failed(&self) -> bool {
        self.failed
    }
}
