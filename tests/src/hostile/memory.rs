//! Shared memory of every sort, good and bad, and what lies where in a segment: written down a second time,
//! from `docs/design.md`, not taken from the product.

use std::ffi::c_int;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use super::unix::check;

/// Connections of a small segment.
pub const CONNS: u32 = 64;
const BLOCKS: u64 = 16384;
const BLOCK: u64 = 1024;
const DIRECTION: u64 = 320;
const SIDE: u64 = 192;
/// Bytes of a ring, by level.
pub const LEVELS: [u64; 5] = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Bytes of a page with the sleep words of a process.
pub const PAGE: u64 = 4096 * 4;

/// Which side has made the claim, and which the offer.
pub const CLAIMER: u64 = 0;
pub const OFFERER: u64 = 1;

/// Bytes of a segment of so many connections.
pub fn segment_size(conns: u32) -> u64 {
    ring_area(conns) + u64::from(conns) * 2 * LEVELS.iter().sum::<u64>()
}

fn ring_area(conns: u32) -> u64 {
    (BLOCKS + u64::from(conns) * BLOCK).next_multiple_of(4096)
}

/// The ring of this level that carries a direction; 0 is from the claiming side.
pub fn ring(conns: u32, level: usize, conn: u32, direction: u64) -> u64 {
    let below: u64 = LEVELS[..level].iter().sum();
    let first = ring_area(conns) + u64::from(conns) * 2 * below;
    first + (u64::from(conn) * 2 + direction) * LEVELS[level]
}

pub fn direction(conn: u32, direction: u64) -> u64 {
    BLOCKS + u64::from(conn) * BLOCK + direction * DIRECTION
}

pub fn side(conn: u32, side: u64) -> u64 {
    BLOCKS + u64::from(conn) * BLOCK + 2 * DIRECTION + side * SIDE
}

/// Words of a direction, from its beginning.
pub const TAIL: u64 = 0;
pub const EPOCH: u64 = 8;
pub const CLOSED: u64 = 16;
pub const HEAD: u64 = 64;
pub const HEAD_EPOCH: u64 = 72;
pub const DATA_WIRE: u64 = 128;
pub const WISH: u64 = 184;
pub const SPACE_WIRE: u64 = 192;
pub const MARKS: u64 = 256;
/// Words of a side.
pub const STAGE: u64 = 0;
/// The stage of an offering side that has taken the block.
pub const CONFIRMED: u32 = 1;

/// A word of a block or a board.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    pub name: &'static str,
    /// Within a direction, a side or a board.
    pub at: u64,
    /// Bytes.
    pub size: u64,
    /// All values up to this one are tried; then random ones.
    pub small: u64,
}

const fn word(name: &'static str, at: u64, size: u64, small: u64) -> Word {
    Word {
        name,
        at,
        size,
        small,
    }
}

/// Of a direction. Of a wire: who is armed, where, who that is, and a stamp.
pub const OF_DIRECTION: [Word; 20] = [
    word("tail", TAIL, 8, 0),
    word("epoch", EPOCH, 8, 10),
    word("closed", CLOSED, 4, 4),
    word("cpu", 20, 4, 4),
    word("head", HEAD, 8, 0),
    word("head_epoch", HEAD_EPOCH, 8, 10),
    word("data_armed", DATA_WIRE, 4, 0xff),
    word("data_at", DATA_WIRE + 8, 8, 0),
    word("data_name0", DATA_WIRE + 16, 4, 0),
    word("data_name7", DATA_WIRE + 44, 4, 0),
    word("data_stamp", DATA_WIRE + 48, 8, 0),
    word("wish", WISH, 8, 10),
    word("space_armed", SPACE_WIRE, 4, 0xff),
    word("space_at", SPACE_WIRE + 8, 8, 0),
    word("space_name0", SPACE_WIRE + 16, 4, 0),
    word("space_stamp", SPACE_WIRE + 48, 8, 0),
    word("mark0", MARKS, 8, 7),
    word("mark1", MARKS + 8, 8, 7),
    word("mark2", MARKS + 16, 8, 7),
    word("mark7", MARKS + 56, 8, 7),
];

/// Of a side.
pub const OF_SIDE: [Word; 12] = [
    word("stage", STAGE, 4, 4),
    word("grown", 4, 4, 8),
    word("shared", 8, 4, 3),
    word("away", 12, 4, 40),
    word("refused", 16, 4, 70),
    word("parted", 20, 4, 3),
    word("promotion_epoch", 64, 8, 3),
    word("promotion_sent", 80, 8, 0),
    word("promotion_route", 112, 8, 3),
    word("trust_given", 128, 8, 2),
    word("trust_written", 152, 8, 0),
    word("trust_from", 160, 8, 0),
];

/// Of a board: which words have bits, and two of those words.
pub const OF_BOARD: [Word; 3] = [
    word("summary", 0, 8, 0),
    word("word0", 8, 8, 0),
    word("word15", 128, 8, 0),
];

/// Where boards begin, how many each side has, and how far they are apart.
pub const BOARDS: u64 = 4096;
pub const BOARDS_OF_SIDE: u64 = 32;
pub const BOARD: u64 = 192;

/// Seals that fix the size of a memfd: F_SEAL_SEAL, SHRINK and GROW.
pub const FIXED: c_int = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

/// A memfd of this size with these seals; `huge`: of huge pages, if there are any.
pub fn memfd(size: u64, seals: c_int, huge: bool) -> Option<OwnedFd> {
    let huge = if huge { libc::MFD_HUGETLB } else { 0 };
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | huge;
    // SAFETY: a constant name, and flags.
    let fd = check(unsafe { libc::memfd_create(c"ulsock".as_ptr(), flags) }).ok()?;
    // SAFETY: the call has given us this descriptor.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: plain integers.
    check(unsafe { libc::ftruncate(fd.as_raw_fd(), size as i64) }).ok()?;
    // SAFETY: plain integers.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) }).ok()?;
    Some(fd)
}

/// A good segment for 64 connections.
pub fn segment() -> OwnedFd {
    memfd(segment_size(CONNS), FIXED, false).expect("a memfd")
}

/// A good page of sleep words: nobody sleeps.
pub fn page() -> OwnedFd {
    memfd(PAGE, FIXED, false).expect("a memfd")
}

/// Words in a file that others have mapped: a memfd, or /proc/PID/mem from some address on.
pub struct Words {
    file: File,
    base: u64,
}

impl Words {
    pub fn of(fd: OwnedFd) -> Words {
        Words {
            file: File::from(fd),
            base: 0,
        }
    }

    /// Of another process' mapping at this address.
    pub fn within(pid: u32, base: u64) -> Option<Words> {
        let mut options = File::options();
        let file = options.read(true).write(true);
        let file = file.open(format!("/proc/{pid}/mem")).ok()?;
        Some(Words { file, base })
    }

    /// The word there; 0 where nothing is mapped any more.
    pub fn get(&self, at: u64, size: u64) -> u64 {
        let mut bytes = [0; 8];
        let part = &mut bytes[..size as usize];
        let read = self.file.read_exact_at(part, self.base + at);
        read.map_or(0, |()| u64::from_ne_bytes(bytes))
    }

    /// `false`: nothing is mapped there any more.
    pub fn put(&self, at: u64, size: u64, value: u64) -> bool {
        let bytes = &value.to_ne_bytes()[..size as usize];
        self.file.write_all_at(bytes, self.base + at).is_ok()
    }

    pub fn stage(&self, conn: u32, of: u64) -> u32 {
        self.get(side(conn, of) + STAGE, 4) as u32
    }

    /// The first mark of a direction: from where its reader stands it goes on in the smallest ring, which has so many
    /// bytes.
    pub fn enter_ring(&self, direction: u64, bytes: u64) {
        let start = self.get(direction + HEAD, 8);
        self.put(direction + TAIL, 8, start + bytes);
        self.put(direction + MARKS + 8, 8, start << 3 | 1);
        self.put(direction + EPOCH, 8, 1);
    }

    /// Takes the memory of a range away; it then reads as zeros.
    pub fn punch(&self, at: u64, length: u64) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (at, length) = (at as i64, length as i64);
        // SAFETY: plain integers.
        unsafe { libc::fallocate(self.file.as_raw_fd(), mode, at, length) };
    }
}
