//! What lies where in a segment: boards, connection blocks, rings by level.
//!
//! Blocks of one kind lie together, so that small connections touch few pages and page tables stay
//! small; the rings of higher levels are holes in the file until a connection grows into them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use netstack::failover::Prepare;
use netstack::in_shared_memory;
use netstack::ring::mark::{LEVEL_SIZE, LEVELS};
use netstack::ring::{Shared, Tail};

/// Sizes of segments: the first of a pair is small, more are large.
pub const SMALL: u32 = 64;
pub const LARGE: u32 = 1024;
/// Epoll sets of one side that can have members in one segment.
pub const BOARDS: usize = 32;

/// The level of both rings of a block that the daemon serves. Bulk that needs more is the kernel's.
pub const NIC_LEVEL: u8 = 1;

const BOARD_AREA: usize = 4096;
const BLOCK_AREA: usize = 16384;

/// The side that made the claim, and the segment, is 0; the side that made the offer is 1.
pub type SideNumber = usize;
pub const CLAIMER: SideNumber = 0;
pub const OFFERER: SideNumber = 1;

/// Which connections of a segment have something new for one epoll set; the peer sets bits.
#[repr(C, align(64))]
pub struct Board {
    summary: AtomicU64,
    words: [AtomicU64; LARGE as usize / 64],
}

impl Board {
    /// Peer side: connection `conn` has something.
    pub fn post(&self, conn: u32) {
        let word = conn as usize / 64 % self.words.len();
        self.words[word].fetch_or(1 << (conn % 64), Ordering::AcqRel);
        self.summary.fetch_or(1 << word, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.summary.load(Ordering::Acquire) == 0
    }

    /// Owner: takes all bits.
    pub fn take(&self, mut each: impl FnMut(u32)) {
        let mut summary = self.summary.swap(0, Ordering::AcqRel);
        while summary != 0 {
            let word = summary.trailing_zeros() as usize % self.words.len();
            summary &= summary - 1;
            let mut bits = self.words[word].swap(0, Ordering::AcqRel);
            while bits != 0 {
                each(word as u32 * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

/// What one side says about a connection block.
#[repr(C, align(64))]
pub struct SideLine {
    /// The ends' progress; see the constants below.
    pub stage: AtomicU32,
    /// The highest ring level this side has grown to: memory to give back.
    pub grown: AtomicU32,
    /// More than one process of this side holds the socket: some cannot ring every bell.
    pub shared: AtomicU32,
    /// This side's guard keeps the connection from its rings, and why; see `conn/guard`.
    pub away: AtomicU32,
    /// The offering side has not taken the block, and why (a `rendezvous::reason::Reason`); before it is released.
    pub refused: AtomicU32,
    /// This side uses the block no more, though its connection lives on.
    pub parted: AtomicU32,
    pub promotion: Promotion,
    pub trust: Trust,
}

/// How a library and the daemon of its host agree on a promotion to the NIC, in a block that they share
/// (docs/failover.md). All zero: none.
///
/// The program's side has made the block's cursors ready before it says anything here. As the one that
/// has connected it proposes, and the daemon says `refused` if nothing comes of it; as the one that has
/// accepted it finds the peer's proposal on the daemon's side, and repeats `epoch` on its own to agree.
///
/// If the engine is the program's own (see `inline`), the daemon says by which `route` and under which
/// `name` the connection is to be found there: beside a proposal that it hands on, or beside `agreed`.
#[repr(C, align(64))]
pub struct Promotion {
    /// Written last: the other fields belong to this epoch.
    pub epoch: AtomicU64,
    pub key: AtomicU64,
    pub sent: AtomicU64,
    pub received: AtomicU64,
    /// The daemon's: this epoch will not be.
    pub refused: AtomicU64,
    /// The daemon's: the name on the link, and the route plus one; 0: the daemon's engine has it.
    pub name: AtomicU64,
    pub route: AtomicU64,
    /// The daemon's: the peer has agreed to this epoch, and the program's engine shall open it.
    pub agreed: AtomicU64,
}

impl Promotion {
    /// In place of an earlier one, if nobody has agreed to that: who asks meanwhile finds none.
    pub fn put(&self, it: &Prepare) {
        self.epoch.store(0, Ordering::Relaxed);
        // Who finds a new field finds the epoch gone.
        fence(Ordering::Release);
        self.key.store(it.key, Ordering::Relaxed);
        self.sent.store(it.sent, Ordering::Relaxed);
        self.received.store(it.received, Ordering::Relaxed);
        self.epoch.store(it.epoch, Ordering::Release);
    }

    /// All of it from one proposal: half of one and half of the next would be a place where nobody stands.
    pub fn proposal(&self) -> Option<Prepare> {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let it = Prepare {
            epoch: self.epoch.load(Ordering::Acquire),
            key: load(&self.key),
            sent: load(&self.sent),
            received: load(&self.received),
        };
        fence(Ordering::Acquire);
        let is_whole = it.epoch != 0 && load(&self.epoch) == it.epoch;
        let is_one = Tail::is_offset(it.sent) && Tail::is_offset(it.received);
        (is_whole && is_one).then_some(it)
    }
}

/// `[F31]` What the daemon, which has a duplicate of the socket, goes on by if the program is killed in the middle of a
/// fail-over. The kernel's own counts tell how much of it was done.
#[repr(C, align(64))]
pub struct Trust {
    /// The program's: nobody else holds the socket, and the kernel does not carry plain bytes both ways yet. The
    /// daemon's: it has the duplicate.
    pub given: AtomicU64,
    /// The program's: what the kernel had been given by the promotion, and what had been taken from it.
    pub sent: AtomicU64,
    pub taken: AtomicU64,
    /// The program's, before it writes RESUME: the field `written`, and `from` plus one.
    pub written: AtomicU64,
    pub from: AtomicU64,
}

impl Trust {
    #[inline]
    pub fn is_given(&self) -> bool {
        self.given.load(Ordering::Acquire) != 0
    }

    /// Whether it was given.
    pub fn end(&self) -> bool {
        self.given.swap(0, Ordering::AcqRel) != 0
    }
}

/// The offering side has checked and mapped the block.
pub const CONFIRMED: u32 = 1;
/// This side will not look at the block again.
pub const RELEASED: u32 = 2;

/// One connection's control words.
#[repr(C)]
pub struct Block {
    /// From the claiming side to the offering side, and back.
    pub directions: [Shared; 2],
    pub sides: [SideLine; 2],
}

in_shared_memory!(Board { summary, words });
in_shared_memory!(Promotion {
    epoch,
    key,
    sent,
    received,
    refused,
    name,
    route,
    agreed
});
in_shared_memory!(Trust {
    given,
    sent,
    taken,
    written,
    from
});
in_shared_memory!(SideLine {
    stage,
    grown,
    shared,
    away,
    refused,
    parted,
    promotion,
    trust
});
in_shared_memory!(Block { directions, sides });

/// Offsets within a segment of `conns` connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    conns: u32,
}

impl Layout {
    /// `None` for a number of connections that we never use.
    pub fn new(conns: u32) -> Option<Layout> {
        (conns == SMALL || conns == LARGE).then_some(Layout { conns })
    }

    pub fn conns(self) -> u32 {
        self.conns
    }

    pub fn board(self, side: SideNumber, board: usize) -> usize {
        BOARD_AREA + (side * BOARDS + board) * std::mem::size_of::<Board>()
    }

    pub fn block(self, conn: u32) -> usize {
        BLOCK_AREA + conn as usize * std::mem::size_of::<Block>()
    }

    fn level_area(self, level: usize) -> usize {
        let blocks_end = self.block(self.conns).next_multiple_of(4096);
        let below: u64 = LEVEL_SIZE[..level].iter().sum();
        blocks_end + self.conns as usize * 2 * below as usize
    }

    /// The ring of `level` that carries direction `direction` of connection `conn`.
    pub fn ring(self, level: usize, conn: u32, direction: usize) -> usize {
        self.level_area(level) + (conn as usize * 2 + direction) * LEVEL_SIZE[level] as usize
    }

    pub fn size(self) -> usize {
        self.level_area(LEVELS)
    }
}

const _: () = assert!(std::mem::size_of::<SideLine>() == 192);
const _: () = assert!(BOARD_AREA + 2 * BOARDS * std::mem::size_of::<Board>() <= BLOCK_AREA);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_everything_fits() {
        let layout = Layout::new(SMALL).unwrap();
        assert!(layout.block(SMALL) <= layout.ring(0, 0, 0));
        for (level, size) in LEVEL_SIZE.iter().enumerate() {
            let end = layout.ring(level, SMALL - 1, 1) + *size as usize;
            let next = match level + 1 {
                LEVELS => layout.size(),
                above => layout.ring(above, 0, 0),
            };
            assert_eq!(end, next);
        }
    }

    /// The daemon writes the next proposal while the library reads the last.
    #[test]
    fn proposals_are_not_mixed() {
        const LAST: u64 = 2_000_000;
        // SAFETY: all zero is a valid one.
        let promotion: Promotion = unsafe { std::mem::zeroed() };
        let mut read = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=LAST {
                    promotion.put(&Prepare {
                        epoch: number,
                        key: number,
                        sent: number,
                        received: number,
                    });
                }
            });
            while read < LAST {
                if let Some(it) = promotion.proposal() {
                    assert_eq!([it.key, it.sent, it.received], [it.epoch; 3]);
                    assert!(it.epoch >= read);
                    read = it.epoch;
                }
            }
        });
    }

    #[test]
    fn a_board_hands_out_each_bit_once() {
        // SAFETY: all zero is a valid board.
        let board: Board = unsafe { std::mem::zeroed() };
        board.post(3);
        board.post(1000);
        let mut seen = Vec::new();
        board.take(|conn| seen.push(conn));
        assert_eq!(seen, [3, 1000]);
        assert!(board.is_empty());
    }
}
