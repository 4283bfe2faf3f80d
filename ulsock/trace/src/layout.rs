//! How a recording lies in its file: a header of a page, and chunks of 32 KiB, each with a head and entries of one thread.
//!
//! All of it is words that one side stores and the other loads; the reader believes none of them.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// "ulsocktr", and the version of the layout in its last byte.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ulsockt\x01");

/// Says how many chunks a recording may have and, behind a colon, in which folder it shall be.
pub const VARIABLE: &str = "ULSOCK_TRACE";
/// 4 GiB.
pub const MOST_CHUNKS: u32 = 1 << 17;

pub const HEADER: usize = 4096;
pub const CHUNK: usize = 32 << 10;
pub const WORDS: usize = 8;
pub const ENTRY: usize = WORDS * 8;
/// Entries of a chunk: one place is its head.
pub const ENTRIES: usize = CHUNK / ENTRY - 1;
pub const PROGRAM: usize = 256;

/// The first page.
#[repr(C)]
pub struct Header {
    pub magic: AtomicU64,
    pub pid: AtomicU32,
    /// That the file has room for.
    pub chunks: AtomicU32,
    /// Given to threads so far; may be more than there are.
    pub given: AtomicU32,
    /// libulsock_preload.so is there and told us what it does.
    pub attached: AtomicU32,
    /// When recording began, by the monotonic clock and by the calendar: nanoseconds.
    pub began: AtomicU64,
    pub began_realtime: AtomicU64,
    /// Entries that found no room, and the time of the first of them.
    pub dropped: AtomicU64,
    pub full_at: AtomicU64,
    /// The program's file, cut, and padded with zeros.
    pub program: [AtomicU64; PROGRAM / 8],
}

/// The first entry's place of a chunk.
#[repr(C, align(64))]
pub struct Head {
    pub pid: AtomicU32,
    pub tid: AtomicU32,
    /// Of the thread.
    pub name: [AtomicU64; 2],
    /// Entries that were begun; may be more than there are.
    pub used: AtomicU32,
    /// The call that the thread is in: its number plus one, 0 for none.
    pub under_way: AtomicU32,
    pub fd: AtomicU32,
    pub unused: AtomicU32,
    pub since: AtomicU64,
    pub place: [AtomicU64; 1],
}

const _: () = assert!(size_of::<Head>() == ENTRY);
const _: () = assert!(size_of::<Header>() <= HEADER);

/// Bytes of a file with so many chunks.
pub const fn size(chunks: u32) -> usize {
    HEADER + chunks as usize * CHUNK
}
