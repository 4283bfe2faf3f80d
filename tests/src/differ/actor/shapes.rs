//! Vectors of odd shapes, over memory of their own.

use libc::iovec;

/// Where nobody maps anything.
const NOWHERE: usize = 0x1234_5600_0040;
/// The shape whose bytes are there. What of a message is good and what is bad, and how much of it goes, is left to the
/// kernel's page fragments, so all of it is bad.
const BAD: i64 = 10;

/// Memory and the vector that describes it, and the count to claim.
pub struct Shape {
    pub memory: Vec<u8>,
    pub vector: Vec<iovec>,
    pub count: i64,
}

impl Shape {
    /// `length` bytes of memory in the shape of this number.
    pub fn new(kind: i64, memory: Vec<u8>) -> Self {
        let length = memory.len();
        let half = length / 2;
        let lengths = match kind {
            0 => vec![length],
            1 => vec![],
            2 => vec![0, length, 0],
            3 => vec![half, 0, length - half],
            4 => vec![length / 7; 7],
            5 => vec![length / 1024; 1024],
            6 => vec![length / 1025; 1025],
            7 => vec![0, 0],
            8 => vec![half, usize::MAX, length - half],
            _ => vec![length],
        };
        let mut shape = Self {
            memory,
            vector: Vec::new(),
            count: if kind == 9 { -1 } else { lengths.len() as i64 },
        };
        let mut at = 0;
        for iov_len in lengths {
            let base = shape.memory[at.min(length)..].as_mut_ptr();
            let iov_base = match (kind, iov_len) {
                (_, 0) => std::ptr::null_mut(),
                (BAD, _) => NOWHERE as *mut libc::c_void,
                _ => base.cast(),
            };
            shape.vector.push(iovec { iov_base, iov_len });
            at = at.saturating_add(iov_len);
        }
        shape
    }

    /// The message that carries it.
    pub fn message(&mut self) -> libc::msghdr {
        // SAFETY: a header of zeroes is an empty message.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = self.vector.as_mut_ptr();
        message.msg_iovlen = self.count as usize;
        message
    }
}
