//! What the daemon sleeps on: one epoll set with everything in it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use netstack::time::Instant;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::{self, Errno};

use os::raw;

/// Events that are taken at once.
const MOST_EVENTS: usize = 64;

/// Who has something to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Programs connect.
    Door,
    /// Somebody asks how things are.
    StatusDoor,
    /// Daemons of other hosts connect.
    Listener,
    Signals,
    /// Routes and neighbours have changed.
    Watch,
    /// Our own bell.
    Bell,
    /// The bell of a program of another user.
    StrangersBell(u32),
    /// The channel of a program.
    Program(u32),
    /// A daemon that has connected, and not said yet who it is.
    Caller(u32),
    /// The channel to another host.
    Host(u32),
    /// The port of an interface.
    Interface(u32),
    /// The socket of a program that has closed it.
    Orphan(u32),
    /// Programs in containers connect.
    HostDoor,
    /// The channel of one of those.
    Guest(u32),
    /// Names have changed.
    Names,
    /// The store of names has told something.
    Board,
    /// The source of peers has told of others.
    Roster,
}

impl Source {
    fn to_number(self) -> u64 {
        let (kind, number) = match self {
            Source::Door => (0, 0),
            Source::StatusDoor => (1, 0),
            Source::Listener => (2, 0),
            Source::Signals => (3, 0),
            Source::Watch => (4, 0),
            Source::Bell => (5, 0),
            Source::StrangersBell(number) => (6, number),
            Source::Program(number) => (7, number),
            Source::Caller(number) => (8, number),
            Source::Host(number) => (9, number),
            Source::Interface(number) => (10, number),
            Source::Orphan(number) => (11, number),
            Source::HostDoor => (12, 0),
            Source::Guest(number) => (13, number),
            Source::Names => (14, 0),
            Source::Board => (15, 0),
            Source::Roster => (16, 0),
        };
        kind << 32 | u64::from(number)
    }

    fn from_number(number: u64) -> Option<Source> {
        let (kind, number) = (number >> 32, number as u32);
        Some(match kind {
            0 => Source::Door,
            1 => Source::StatusDoor,
            2 => Source::Listener,
            3 => Source::Signals,
            4 => Source::Watch,
            5 => Source::Bell,
            6 => Source::StrangersBell(number),
            7 => Source::Program(number),
            8 => Source::Caller(number),
            9 => Source::Host(number),
            10 => Source::Interface(number),
            11 => Source::Orphan(number),
            12 => Source::HostDoor,
            13 => Source::Guest(number),
            14 => Source::Names,
            15 => Source::Board,
            16 => Source::Roster,
            _ => return None,
        })
    }
}

pub struct Set(OwnedFd);

impl Set {
    pub fn new() -> io::Result<Set> {
        epoll::create(CreateFlags::CLOEXEC).map(Set)
    }

    /// Hears when there is something to read, as long as there is.
    pub fn add(&self, source: Source, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.add_for(source, fd, EventFlags::IN)
    }

    /// The same, and perhaps when there is room to write.
    pub fn watch(&self, source: Source, fd: BorrowedFd<'_>, writes: bool) -> io::Result<()> {
        self.add_for(source, fd, wishes(writes))
    }

    pub fn rewatch(&self, source: Source, fd: BorrowedFd<'_>, writes: bool) -> io::Result<()> {
        let data = EventData::new_u64(source.to_number());
        epoll::modify(&self.0, fd, data, wishes(writes))
    }

    /// Hears of every change once.
    pub fn add_changes(&self, source: Source, fd: BorrowedFd<'_>) -> io::Result<()> {
        let all = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP;
        self.add_for(source, fd, all | EventFlags::ET)
    }

    fn add_for(&self, source: Source, fd: BorrowedFd<'_>, what: EventFlags) -> io::Result<()> {
        epoll::add(&self.0, fd, EventData::new_u64(source.to_number()), what)
    }

    pub fn remove(&self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.0, fd);
    }

    /// Who has something to say, now or before that moment.
    pub fn wait(&self, now: Instant, until: Option<Instant>) -> Vec<Source> {
        let mut events = [epoll::Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }; MOST_EVENTS];
        let time = until.map(|until| {
            let time = until - now;
            [time.as_secs() as i64, time.subsec_nanos().into()]
        });
        let timespec = time.as_ref().map_or(0, |time| time.as_ptr() as usize);
        let (fd, to) = (self.0.as_fd().as_raw_fd() as usize, events.as_mut_ptr());
        let args = [fd, to as usize, MOST_EVENTS, timespec, 0, 0];
        // SAFETY: room for so many events, and a struct timespec or none; no signal mask. rustix's own
        // rounds to milliseconds.
        let count = match unsafe { raw::syscall(libc::SYS_epoll_pwait2, args) } {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(errno) => panic!("epoll_pwait2: {errno}"),
        };
        let heard = events[..count].iter();
        heard
            .filter_map(|event| Source::from_number(event.data.u64()))
            .collect()
    }
}

fn wishes(writes: bool) -> EventFlags {
    if writes {
        EventFlags::IN | EventFlags::OUT
    } else {
        EventFlags::IN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_has_its_number() {
        let is_one = |kind| kind < 6 || matches!(kind, 12 | 14..=16);
        let sources = (0..17).map(|kind| kind << 32 | if is_one(kind) { 0 } else { 77 });
        for number in sources {
            let source = Source::from_number(number);
            assert_eq!(source.map(Source::to_number), Some(number));
        }
        assert_eq!(Source::from_number(17 << 32), None);
    }
}
