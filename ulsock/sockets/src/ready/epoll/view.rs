//! A set's board in one segment: whom of the set it speaks of, found without a search. With thousands of
//! members those who have news are in no cache. So all that a look at one, a receive and an answer will
//! need is asked for at once.

use std::os::fd::RawFd;
use std::sync::Arc;

use super::numbers::NumberMap;
use rendezvous::pair::PairSegment;
use shm::layout::{Board, SideNumber};
use shm::order::Stamp;

/// A number that the set has for a connection, and the connection's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedBoard {
    pub fd: RawFd,
    pub record: u32,
}

pub struct View {
    segment: Arc<PairSegment>,
    side: SideNumber,
    pub number: usize,
    watched: Places,
}

impl View {
    /// `None` when the segment has no board left.
    pub fn new(segment: &Arc<PairSegment>, side: SideNumber) -> Option<View> {
        Some(View {
            number: segment.take_board()?,
            segment: segment.clone(),
            side,
            watched: Places::default(),
        })
    }

    pub fn is_of(&self, segment: &Arc<PairSegment>) -> bool {
        Arc::ptr_eq(&self.segment, segment)
    }

    pub fn add(&mut self, conn: u32, watched: WatchedBoard) {
        self.watched.add(conn, watched);
    }

    /// Says whether it speaks of anybody still.
    pub fn remove(&mut self, conn: u32, fd: RawFd) -> bool {
        self.watched.remove(conn, fd);
        self.watched.count > 0
    }

    pub fn give_back(self) {
        self.segment.give_board(self.number);
    }

    #[inline]
    pub fn is_posted(&self) -> bool {
        !self.board().is_empty()
    }

    /// Takes what the peer has posted: numbers, and by which connection of the segment.
    pub fn take(&self, mut each: impl FnMut(RawFd, u32)) {
        self.board().take(|conn| {
            for watched in self.watched.of(conn) {
                self.fetch(conn, watched.record);
                each(watched.fd, conn);
            }
        });
    }

    /// When that was.
    pub fn stamp(&self, conn: u32) -> Stamp {
        self.segment.stamp(conn, self.side)
    }

    fn board(&self) -> &Board {
        self.segment.board(self.side, self.number)
    }

    fn fetch(&self, conn: u32, record: u32) {
        self.segment.fetch(conn, self.side);
        if let Some(family) = crate::state::process_group::own() {
            family.fetch(record);
        }
    }
}

/// By a connection's number in the segment. Nearly all have one place at most.
#[derive(Default)]
struct Places {
    first: Vec<Option<WatchedBoard>>,
    further: NumberMap<u32, Vec<WatchedBoard>>,
    count: usize,
}

impl Places {
    fn add(&mut self, conn: u32, watched: WatchedBoard) {
        let index = conn as usize;
        if index >= self.first.len() {
            self.first.resize(index + 1, None);
        }
        match &mut self.first[index] {
            Some(_) => self.further.entry(conn).or_default().push(watched),
            empty => *empty = Some(watched),
        }
        self.count += 1;
    }

    fn remove(&mut self, conn: u32, fd: RawFd) {
        let mut left: Vec<WatchedBoard> = self.of(conn).collect();
        self.count -= left.len();
        left.retain(|watched| watched.fd != fd);
        self.further.remove(&conn);
        if let Some(first) = self.first.get_mut(conn as usize) {
            *first = None;
        }
        left.into_iter().for_each(|watched| self.add(conn, watched));
    }

    /// A number from the peer may be any.
    fn of(&self, conn: u32) -> impl Iterator<Item = WatchedBoard> + '_ {
        let first = self.first.get(conn as usize).copied().flatten();
        let further = match self.further.is_empty() {
            true => None,
            false => self.further.get(&conn),
        };
        first
            .into_iter()
            .chain(further.into_iter().flatten().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(fd: RawFd) -> WatchedBoard {
        WatchedBoard { fd, record: 7 }
    }

    fn fds(places: &Places, conn: u32) -> Vec<RawFd> {
        places.of(conn).map(|watched| watched.fd).collect()
    }

    #[test]
    fn each_connection_has_its_own_numbers() {
        let mut places = Places::default();
        for (conn, fd) in [(1023, 5), (3, 6), (3, 7), (3, 8)] {
            places.add(conn, watched(fd));
        }
        assert_eq!(fds(&places, 1023), [5]);
        assert_eq!(fds(&places, 3), [6, 7, 8]);
        assert!(fds(&places, 4).is_empty());
        assert!(fds(&places, u32::MAX).is_empty());
    }

    #[test]
    fn who_is_removed_leaves_the_others() {
        let mut places = Places::default();
        (6..9).for_each(|fd| places.add(3, watched(fd)));
        for (fd, left) in [(6, vec![7, 8]), (6, vec![7, 8]), (8, vec![7]), (7, vec![])] {
            places.remove(3, fd);
            assert_eq!(fds(&places, 3), left);
            assert_eq!(places.count, left.len());
        }
        places.remove(900, 7);
        assert_eq!(places.count, 0);
    }
}
