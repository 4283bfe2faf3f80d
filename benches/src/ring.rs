//! The bare ring as a stream: netstack's rings in memory that two processes map, with no sockets,
//! hooks, locks or wake-ups around them. `ulsock compare` holds the sockets against it.
//!
//! The memory is all zero at first, which is how a connection begins. Each end wishes for a ring,
//! enters it, and goes on to the size that sockets use while their peer keeps up. An end that waits
//! spins, and now and then gives up its core and looks whether its peer is still there.

use std::fs::File;
use std::hint::spin_loop;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use memmap2::{MmapOptions, MmapRaw};
use netstack::ring::mark::LEVEL_SIZE;
use netstack::ring::{
    Hostile, Look, Memory, Receiver, RxState, Sender, Shared, Sink, Source, TxState,
};
use netstack::shared_memory;
use rustix::fs::MemfdFlags;

/// The ring that ends go on to: 256 KiB.
const LEVEL: u8 = 2;
/// Looks between two pauses for somebody else.
const LOOKS_BEFORE_YIELD: u32 = 1000;
/// A reader of a stream that finds little at its look makes so many pauses at most before the next, and
/// then finds more at once: each look takes the cursor's cache line away from its writer.
/// Sockets do the same (ulsock's `gather`).
const MOST_PAUSES: u32 = 24;
const LITTLE: usize = 8 << 10;
/// What both ends share comes first.
const HEAD: usize = 4096;
const _: () = assert!(2 * size_of::<Shared>() <= HEAD);

/// Bytes of the rings below `level`, in one direction.
fn below(level: u8) -> usize {
    LEVEL_SIZE[..level as usize].iter().sum::<u64>() as usize
}

fn size() -> usize {
    HEAD + 2 * below(LEVEL + 1)
}

/// The memory of both directions.
struct Mapping(MmapRaw);

impl Mapping {
    fn of(file: &OwnedFd) -> io::Result<Mapping> {
        MmapOptions::new().len(size()).map_raw(file).map(Mapping)
    }

    fn shared(&self, direction: usize) -> &Shared {
        // SAFETY: a direction is 0 or 1, and two of them fit into the head of the mapping, which starts at a page and
        // lives as long as `self`; their size is a multiple of their alignment.
        unsafe { shared_memory::at(self.0.as_ptr().cast::<Shared>().add(direction).cast()) }
    }

    fn rings(&self, direction: usize) -> MappedRings<'_> {
        let start = HEAD + direction * below(LEVEL + 1);
        MappedRings {
            mapping: self,
            start,
        }
    }
}

/// The rings of one direction.
struct MappedRings<'a> {
    mapping: &'a Mapping,
    start: usize,
}

impl MappedRings<'_> {
    fn at(&self, level: u8, at: usize, len: usize) -> *mut u8 {
        assert!(level <= LEVEL && at + len <= LEVEL_SIZE[level as usize] as usize);
        // SAFETY: within the ring, which is within the mapping.
        unsafe {
            self.mapping
                .0
                .as_mut_ptr()
                .add(self.start + below(level) + at)
        }
    }
}

impl Memory for MappedRings<'_> {
    fn fill<S: Source + ?Sized>(&self, level: u8, at: usize, len: usize, from: &mut S) -> usize {
        // SAFETY: `at` has checked that `len` bytes are there.
        unsafe { from.give(self.at(level, at, len), len) }
    }

    fn drain<S: Sink + ?Sized>(&self, level: u8, at: usize, len: usize, to: &mut S) {
        // SAFETY: `at` has checked that `len` bytes are there.
        unsafe { to.take(self.at(level, at, len), len) };
    }
}

/// One end of a pair of rings.
pub struct RingEnd {
    mapping: Arc<Mapping>,
    /// The direction that it sends in; it receives in the other.
    direction: usize,
    tx: TxState,
    rx: RxState,
    /// Before the next look, if nothing is sent until then.
    pauses: u32,
    /// What it had sent at the latest.
    sent: u64,
    /// Closed when the peer's process has gone; none if that is this one.
    peer: Option<UnixStream>,
}

/// Both ends, for this process.
pub fn pair() -> io::Result<(RingEnd, RingEnd)> {
    let mapping = Arc::new(Mapping::of(&memory()?)?);
    let mut ends = [0, 1].map(|direction| RingEnd::new(mapping.clone(), direction, None));
    for end in &mut ends {
        end.enter()?;
    }
    Ok(ends.into())
}

fn memory() -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("ring", MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&file, size() as u64)?;
    Ok(file)
}

impl RingEnd {
    /// Makes the memory, and tells the client where it can be opened.
    pub fn accept(mut peer: UnixStream) -> io::Result<RingEnd> {
        let file = memory()?;
        let mapping = Arc::new(Mapping::of(&file)?);
        let (process, number) = (std::process::id(), file.as_raw_fd());
        writeln!(peer, "/proc/{process}/fd/{number}")?;
        let mut end = RingEnd::new(mapping, 0, Some(peer));
        // Until the client has entered too, the memory must stay open.
        end.enter()?;
        Ok(end)
    }

    pub fn connect(peer: UnixStream) -> io::Result<RingEnd> {
        let mut path = String::new();
        BufReader::new(&peer).read_line(&mut path)?;
        let file = File::options()
            .read(true)
            .write(true)
            .open(path.trim_end())?;
        let mapping = Arc::new(Mapping::of(&file.into())?);
        let mut end = RingEnd::new(mapping, 1, Some(peer));
        end.enter()?;
        Ok(end)
    }

    /// Wishes for a ring; the peer can then enter it.
    fn new(mapping: Arc<Mapping>, direction: usize, peer: Option<UnixStream>) -> RingEnd {
        let mut end = RingEnd {
            mapping,
            direction,
            tx: TxState::begin(0),
            rx: RxState::begin(0),
            pauses: 0,
            sent: 0,
            peer,
        };
        end.receive(|receiver| receiver.wish(true));
        end
    }

    /// Enters the ring that the peer wishes for, and goes on to the largest.
    fn enter(&mut self) -> io::Result<()> {
        if let Some(peer) = &self.peer {
            peer.set_nonblocking(true)?;
        }
        let mut looks = 0;
        while self.send(|sender| sender.enter_ring()).is_none() {
            self.pause(&mut looks)?;
        }
        for _ in 0..LEVEL {
            self.send(|sender| sender.grow(LEVEL));
        }
        Ok(())
    }

    #[inline]
    fn send<T>(&mut self, act: impl FnOnce(&mut Sender<'_, MappedRings<'_>>) -> T) -> T {
        let (shared, memory) = (
            self.mapping.shared(self.direction),
            &self.mapping.rings(self.direction),
        );
        let state = &mut self.tx;
        act(&mut Sender {
            shared,
            memory,
            state,
        })
    }

    #[inline]
    fn receive<T>(&mut self, act: impl FnOnce(&mut Receiver<'_, MappedRings<'_>>) -> T) -> T {
        let direction = 1 - self.direction;
        let (shared, memory) = (
            self.mapping.shared(direction),
            &self.mapping.rings(direction),
        );
        let (state, peek) = (&mut self.rx, false);
        act(&mut Receiver {
            shared,
            memory,
            state,
            peek,
        })
    }

    /// Puts as much into the ring as there is room for.
    #[inline]
    pub fn push(&mut self, mut bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len() as u64;
        // Nobody sleeps here: there is nobody to wake.
        let pushed = self.send(|sender| match sender.put(length, &mut bytes, true) {
            Some(_) => Ok(length),
            None => sender.push(length, &mut bytes, |_| ()),
        });
        pushed.map(|n| n as usize).map_err(damaged)
    }

    /// Takes as much from the ring as there is.
    #[inline]
    pub fn pull(&mut self, mut into: &mut [u8]) -> io::Result<usize> {
        let length = into.len() as u64;
        let pulled = self.receive(|receiver| {
            if let Some((n, _)) = receiver.take(length, &mut into) {
                return Ok(n);
            }
            match receiver.look()? {
                Look::Ring(n) if n > 0 => {
                    let n = n.min(length);
                    receiver.pull(n, &mut into);
                    Ok(n)
                }
                // Nothing is there, or the peer has not entered yet.
                _ => Ok(0),
            }
        });
        pulled.map(|n| n as usize).map_err(damaged)
    }

    /// No more will be sent.
    pub fn finish(&self) {
        let ours = &self.mapping.shared(self.direction).producer;
        ours.closed.store(1, Ordering::Release);
    }

    pub fn has_finished(&self) -> bool {
        let theirs = &self.mapping.shared(1 - self.direction).producer;
        theirs.closed.load(Ordering::Acquire) == 1
    }

    /// The same, but nothing only at the end.
    fn wait_and_pull(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut looks = 0;
        loop {
            // Before the look: what comes after it is not the last.
            let last = self.has_finished();
            let length = self.pull(into)?;
            if length > 0 || last {
                return Ok(length);
            }
            self.pause(&mut looks)?;
        }
    }

    /// Between two looks.
    fn pause(&self, looks: &mut u32) -> io::Result<()> {
        *looks += 1;
        if looks.is_multiple_of(LOOKS_BEFORE_YIELD) {
            std::thread::yield_now();
            let gone = |mut peer: &UnixStream| matches!(peer.read(&mut [0]), Ok(0));
            if self.peer.as_ref().is_some_and(gone) && !self.has_finished() {
                return Err(ErrorKind::BrokenPipe.into());
            }
        }
        spin_loop();
        Ok(())
    }
}

impl Drop for RingEnd {
    fn drop(&mut self) {
        self.finish();
    }
}

fn damaged(_: Hostile) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the ring is damaged")
}

impl Read for RingEnd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.tx.written != self.sent {
            self.sent = self.tx.written;
            self.pauses = 0;
        }
        (0..self.pauses).for_each(|_| spin_loop());
        let length = self.pull(buffer)?;
        self.pauses = match length {
            0 => 0,
            little if little < LITTLE.min(buffer.len()) => (self.pauses + 1).min(MOST_PAUSES),
            _ => self.pauses / 2,
        };
        match length == 0 && !buffer.is_empty() {
            true => self.wait_and_pull(buffer),
            false => Ok(length),
        }
    }
}

impl Write for RingEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut looks = 0;
        loop {
            let length = self.push(bytes)?;
            if length > 0 || bytes.is_empty() {
                return Ok(length);
            }
            self.pause(&mut looks)?;
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than fits, so that both ends wait.
    #[test]
    fn a_stream() {
        let (mut from, mut to) = pair().expect("a pair");
        let sent: Vec<u8> = (0..1 << 20)
            .map(|number: u32| (number % 251) as u8)
            .collect();
        let mut came = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                from.write_all(&sent).expect("sent");
                from.finish();
            });
            to.read_to_end(&mut came).expect("came");
        });
        assert!(came == sent);
    }

    #[test]
    fn two_ends_that_meet() {
        let (here, there) = UnixStream::pair().expect("sockets");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut end = RingEnd::accept(here).expect("accepted");
                end.write_all(b"hello").expect("sent");
            });
            let mut end = RingEnd::connect(there).expect("connected");
            let mut came = [0; 5];
            end.read_exact(&mut came).expect("came");
            assert_eq!(&came, b"hello");
            assert_eq!(end.read(&mut came).expect("its end"), 0);
        });
    }
}
