//! A segment of a pair, and who uses which of its blocks and boards.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use netstack::ring::mark::LEVEL_SIZE;
use netstack::shared_memory;

use super::share::Share;
use crate::reason::Reason;
use os::cgroup;
use os::fds::InternalFd;
use os::fetch::fetch_to_read;
use os::fetch::fetch_to_write;
use shm::layout::{BOARDS, Block, Board, CLAIMER, Layout, OFFERER, RELEASED, SideNumber};
use shm::order::{self, Heard, Stamp};
use shm::segment::{Segment, SegmentError};

/// A segment and who uses which of its blocks.
pub struct PairSegment {
    pub number: u32,
    memory: Segment,
    layout: Layout,
    /// Claiming side: blocks that are free, and those that only we have released.
    free: Mutex<Free>,
    /// Of the peer's user.
    share: Arc<Share>,
    boards: AtomicU32,
    /// By the peer's boards.
    heard: [Heard; BOARDS],
}

#[derive(Default)]
struct Free {
    next: u32,
    idle: Vec<u32>,
    half: Vec<Half>,
}

/// A block that the peer has not released, and the memory that it keeps from us by that.
struct Half {
    conn: u32,
    rings: u32,
}

impl PairSegment {
    pub(super) fn create(
        number: u32,
        conns: u32,
        share: Arc<Share>,
    ) -> Option<(PairSegment, InternalFd)> {
        let layout = Layout::new(conns)?;
        let (memory, fd) = Segment::create(layout.size() as u64).ok()?;
        Some((PairSegment::new(number, memory, layout, share), fd))
    }

    pub(super) fn adopt(
        number: u32,
        layout: Layout,
        fd: BorrowedFd<'_>,
        share: Arc<Share>,
    ) -> Result<PairSegment, SegmentError> {
        let memory = Segment::adopt(fd, layout.size() as u64)?;
        Ok(PairSegment::new(number, memory, layout, share))
    }

    fn new(number: u32, memory: Segment, layout: Layout, share: Arc<Share>) -> PairSegment {
        PairSegment {
            number,
            memory,
            layout,
            free: Mutex::default(),
            share,
            boards: AtomicU32::new(0),
            heard: [const { Heard::new() }; BOARDS],
        }
    }

    pub fn conns(&self) -> u32 {
        self.layout.conns()
    }

    pub fn has_block(&self, conn: u32) -> bool {
        conn < self.layout.conns()
    }

    pub fn block(&self, conn: u32) -> *const Block {
        debug_assert!(self.has_block(conn));
        // SAFETY: the layout keeps every block within the segment.
        unsafe { self.memory.base().add(self.layout.block(conn)).cast() }
    }

    /// This side will soon receive from that connection, and answer.
    pub fn fetch(&self, conn: u32, side: SideNumber) {
        // SAFETY: the layout keeps every block within the segment, and aligned.
        let block: &Block = unsafe { shared_memory::at(self.block(conn).cast()) };
        let (tx, rx) = (&block.directions[side], &block.directions[1 - side]);
        fetch_to_read(&rx.producer);
        fetch_to_read(&tx.wait);
        fetch_to_write(&rx.consumer);
        fetch_to_read(&rx.room);
        fetch_to_write(&tx.producer);
        fetch_to_write(&rx.wait);
    }

    /// For those of the peer's waiters that are epoll sets; `None`: none is.
    pub fn stamp_for(&self, names: impl Iterator<Item = u32>) -> Option<Stamp> {
        let boards = names.filter_map(|name| (name as usize >> 16).checked_sub(1));
        let sets = boards.filter_map(|board| self.heard.get(board));
        let behind = sets.map(Heard::is_behind);
        behind.reduce(|one, other| one | other).map(order::stamp)
    }

    /// When the peer last had something for this side's waiters of that connection.
    pub fn stamp(&self, conn: u32, side: SideNumber) -> Stamp {
        // SAFETY: the layout keeps every block within the segment, and aligned.
        let block: &Block = unsafe { shared_memory::at(self.block(conn).cast()) };
        let (tx, rx) = (&block.directions[side], &block.directions[1 - side]);
        Stamp(rx.wait.data.stamp().max(tx.room.space.stamp()))
    }

    pub fn ring(&self, level: usize, conn: u32, direction: usize) -> *mut u8 {
        debug_assert!(self.has_block(conn));
        // SAFETY: the layout keeps every ring within the segment.
        unsafe {
            self.memory
                .base()
                .add(self.layout.ring(level, conn, direction))
        }
    }

    pub fn board(&self, side: SideNumber, board: usize) -> &Board {
        let offset = self.layout.board(side, board % BOARDS);
        // SAFETY: the layout keeps every board within the segment, and aligned.
        unsafe { shared_memory::at(self.memory.base().add(offset)) }
    }

    /// Notes for a waiter of this side, by its name on a wire, that the connection has something. The name has lain in memory
    /// that the peer can write.
    pub fn post_own(&self, side: SideNumber, conn: u32, name: u32) {
        let board = (name as usize >> 16).checked_sub(1);
        if let Some(board) = board.filter(|board| *board < BOARDS) {
            self.board(side, board).post(conn);
        }
    }

    /// A board for one of our epoll sets.
    pub fn take_board(&self) -> Option<usize> {
        let mut used = self.boards.load(Ordering::Relaxed);
        loop {
            let board = used.trailing_ones() as usize;
            if board >= BOARDS {
                return None;
            }
            match self.boards.compare_exchange(
                used,
                used | 1 << board,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(board),
                Err(now) => used = now,
            }
        }
    }

    pub fn give_board(&self, board: usize) {
        self.boards.fetch_and(!(1 << board), Ordering::AcqRel);
    }

    pub(super) fn allocate(&self) -> Option<u32> {
        let mut free = self.free.lock().ok()?;
        let conn = free.idle.pop().or_else(|| self.reclaim(&mut free));
        let conn = conn.or_else(|| self.unused(&mut free))?;
        let block = self.layout.block(conn);
        let got = self
            .memory
            .populate(block, std::mem::size_of::<Block>())
            .is_ok()
            && (0..2).all(|direction| self.populate(0, conn, direction));
        if !got {
            free.idle.push(conn);
            return None;
        }
        self.clear(conn);
        Some(conn)
    }

    /// Gets the memory of a ring: without, its first touch could be a SIGBUS. That of the smallest belongs to its block.
    pub fn populate(&self, level: u8, conn: u32, direction: usize) -> bool {
        let (level, size) = (level as usize, LEVEL_SIZE[level as usize]);
        let at = self.layout.ring(level, conn, direction);
        let may = level == 0 || cgroup::leave(size);
        may && self.memory.populate(at, size as usize).is_ok()
    }

    /// One that nobody has had yet.
    fn unused(&self, free: &mut Free) -> Option<u32> {
        let next = free.next;
        let size = 2 * LEVEL_SIZE[0] + std::mem::size_of::<Block>() as u64;
        let may = self.has_block(next) && !self.share.owes_too_much() && cgroup::leave(size);
        may.then(|| {
            free.next += 1;
            next
        })
    }

    /// Blocks that the peer has released too by now.
    fn reclaim(&self, free: &mut Free) -> Option<u32> {
        let released = |half: &Half| self.peer_has_released(half.conn);
        let (done, half): (Vec<_>, Vec<_>) = free.half.drain(..).partition(released);
        free.half = half;
        self.share
            .has_paid(done.iter().map(|done| done.rings).sum());
        free.idle.extend(done.iter().map(|done| done.conn));
        free.idle.pop()
    }

    /// The peer's user owes no more than it really does.
    pub(super) fn settle_debts(&self) {
        if let Ok(mut free) = self.free.lock() {
            let found = self.reclaim(&mut free);
            free.idle.extend(found);
        }
    }

    fn peer_has_released(&self, conn: u32) -> bool {
        // SAFETY: within the segment by its layout, and mapped as long as that lives.
        let theirs = unsafe { &(*self.block(conn)).sides[OFFERER] };
        theirs.stage.load(Ordering::Acquire) == RELEASED
    }

    /// Offering side: nothing comes of a claim of that block.
    pub(super) fn turn_down(&self, conn: u32, reason: Reason) {
        if self.has_block(conn) {
            // SAFETY: within the segment by its layout, and mapped as long as that lives.
            let mine = unsafe { &(*self.block(conn)).sides[OFFERER] };
            mine.refused.store(reason as u32, Ordering::Relaxed);
            mine.stage.store(RELEASED, Ordering::Release);
        }
    }

    fn clear(&self, conn: u32) {
        // SAFETY: nobody uses the block: it is new, or both sides have released it; all zero is its
        // valid beginning. A peer that lied about releasing it harms only its own connections.
        unsafe { std::ptr::write_bytes(self.block(conn).cast_mut(), 0, 1) };
    }

    /// Gives the memory of a direction's rings back, from the second level up to `highest`.
    pub fn give_back(&self, conn: u32, direction: usize, highest: u32) {
        let levels = LEVEL_SIZE.iter().enumerate().skip(1);
        for (level, size) in levels.take(highest as usize) {
            let at = self.layout.ring(level, conn, direction);
            let _ = self.memory.punch(at, *size as usize);
        }
    }

    /// One side has let go of a block; only the claiming side gives blocks out again.
    pub fn released(&self, conn: u32, side: SideNumber) {
        if side != CLAIMER {
            return;
        }
        let Ok(mut free) = self.free.lock() else {
            return;
        };
        if self.peer_has_released(conn) {
            return free.idle.push(conn);
        }
        let rings = self.rings_kept(conn);
        self.share.owes(rings);
        free.half.push(Half { conn, rings });
    }

    /// What we have sent may still be read, from rings up to the level that we have grown to. In small rings.
    fn rings_kept(&self, conn: u32) -> u32 {
        // SAFETY: within the segment by its layout, and mapped as long as that lives.
        let grown = unsafe { &(*self.block(conn)).sides[CLAIMER].grown };
        let levels = grown.load(Ordering::Relaxed) as usize + 1;
        let bytes: u64 = LEVEL_SIZE.iter().take(levels).sum();
        1 + (bytes / LEVEL_SIZE[0]) as u32
    }
}

impl Drop for PairSegment {
    fn drop(&mut self) {
        if let Ok(free) = self.free.get_mut() {
            self.share
                .has_paid(free.half.iter().map(|half| half.rings).sum());
        }
    }
}
