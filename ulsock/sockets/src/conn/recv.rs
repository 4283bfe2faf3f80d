//! Receiving on a managed connection: the call, and the choice between ring and kernel socket.

mod by_kernel;
mod end;
pub mod in_place;

use std::sync::atomic::Ordering;

use libc::{MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL, c_int};
use netstack::ring::mark::LEVEL_SIZE;
use netstack::ring::{Carrier, Look, Receiver, RxState};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::begin::begin_rx;
use super::buffers::{Bin, Incoming};
use super::kept::KeptConnection;
use super::nic::Heard;
use super::pinned_calls::PinnedCall;
use super::wait::Over;
use super::wait_data::{self, Wanted};
use super::{Conn, Handle, send};
use crate::runtime::chaos;
use crate::runtime::deadline::Deadline;
use crate::runtime::signal::Seen;
use crate::runtime::thread::Thread;
use crate::runtime::way::Way;
use crate::state::record::{Counts, flag};
use os::tcp;
use rendezvous::rings::Rings;

/// What a look brought.
pub(super) enum TakeStep {
    Moved(usize),
    /// Something has changed: look again.
    Again,
    Empty,
    /// The mark of urgent data: a call that has got bytes ends in front of it.
    Mark,
    Eof,
}

/// What a look is for.
#[derive(Clone, Copy)]
struct ReceiveRequest {
    len: usize,
    flags: c_int,
    /// An empty ring is not the last word: look at the kernel socket now and then.
    glance: bool,
    /// The call has got bytes already.
    begun: bool,
}

/// Receives up to `len` bytes; `None` when nothing came and the call has to begin again: the connection is not managed
/// any more, or a handler with SA_RESTART has run.
pub fn recv(
    handle: Handle,
    into: &mut dyn Incoming,
    len: usize,
    flags: c_int,
) -> Option<Result<usize, Errno>> {
    let (mut midway, mut kept) = (PinnedCall::default(), KeptConnection::default());
    let result = receive(handle, into, len, flags, &mut midway, &mut kept);
    midway.end();
    kept.end();
    result
}

/// What holds for a whole receive, as in the kernel from its first look on.
#[derive(Clone, Copy)]
struct Terms {
    len: usize,
    flags: c_int,
    /// It may wait.
    patient: bool,
    /// So many bytes are enough.
    least: usize,
}

impl Terms {
    fn of(conn: &Conn<'_>, len: usize, flags: c_int) -> Terms {
        Terms {
            len,
            flags,
            patient: flags & MSG_DONTWAIT == 0 && !conn.record.has(flag::NONBLOCK),
            least: match flags & MSG_WAITALL {
                // A Unix socket's peek is content with what is there.
                _ if flags & MSG_PEEK != 0 && conn.record.is_unix() => len.min(1),
                0 => len.min(conn.lowat()),
                _ => len,
            },
        }
    }

    fn peeks(&self) -> bool {
        self.flags & MSG_PEEK != 0
    }

    /// How many bytes are to be waited for, after `got`. A receive of all bytes copies each as it comes, and ends at the first
    /// one that has no memory: those before it are waited for, and then it. A peek copies when that one is there. Memory that a
    /// wire cannot wait for is not looked at.
    fn bytes_to_wait_for(&mut self, conn: &Conn<'_>, into: &dyn Incoming, got: usize) -> usize {
        let wanted = self.least - got;
        if self.flags & MSG_WAITALL == 0 {
            return wanted;
        }
        let level = match conn.record.rx.carrier() {
            Carrier::Ring(level) => level,
            Carrier::Kernel => 0,
        };
        let most = wanted.min(LEVEL_SIZE[level as usize] as usize / 2);
        let good = into.writable(most);
        if good == most {
            return wanted;
        }
        if self.peeks() {
            self.least = wanted.min(conn.lowat().max(good + 1));
            return self.least;
        }
        wanted.min(conn.lowat().max(good))
    }
}

/// What one look has come to.
enum Looked {
    /// The call is done.
    Done(Result<usize, Errno>),
    /// Another look, at once.
    Again,
    /// There is not enough: `there` bytes were left there, by a peek.
    Wait { there: usize },
}

fn receive(
    mut handle: Handle,
    into: &mut dyn Incoming,
    len: usize,
    flags: c_int,
    midway: &mut PinnedCall,
    kept: &mut KeptConnection,
) -> Option<Result<usize, Errno>> {
    let me = Thread::me()?;
    let seen = Seen::now(me);
    let mut got = 0;
    let (mut deadline, mut terms) = (None, None);
    // Why the wait has ended: what is there now is all that this call gets.
    let mut over = None;
    crate::runtime::engine_flag::glance();
    loop {
        let Some(conn) = Conn::enter(handle) else {
            return match over {
                _ if got > 0 => Some(Ok(got)),
                // A handler has closed it.
                Some(Over::Fails(error)) => Some(Err(error)),
                Some(Over::Restarts) | None => None,
            };
        };
        conn.heed_orders();
        conn.attend();
        let terms = terms.get_or_insert_with(|| Terms::of(&conn, len, flags));
        let before = conn.progress();
        let there = match conn.look_once(into, terms, &mut got, over.is_some()) {
            Looked::Done(result) => return Some(result),
            Looked::Again => {
                midway.note(got > 0, handle);
                continue;
            }
            Looked::Wait { there } => there,
        };
        match over.or((!terms.patient).then_some(Over::Fails(Errno::AGAIN))) {
            None => {}
            Some(_) if got > 0 => {
                conn.lose_error();
                return Some(Ok(got));
            }
            Some(Over::Fails(error)) => return Some(Err(error)),
            Some(Over::Restarts) => return None,
        }
        let deadline = *deadline.get_or_insert_with(|| {
            Deadline::of_socket(conn.record.recv_timeout_us.load(Ordering::Relaxed))
        });
        let wanted = Wanted {
            before,
            least: terms.bytes_to_wait_for(&conn, into, got) as u64,
            there: there as u64,
            urgent: !terms.peeks(),
        };
        midway.note(got > 0 || deadline.has_end(), handle);
        let woken = wait_data::wait(conn, wanted, deadline, seen, kept);
        handle = handle.here();
        over = Over::of(woken, seen, me, deadline);
    }
}

impl Conn<'_> {
    /// Takes what is there, or finds that it is not enough.
    fn look_once(
        &self,
        into: &mut dyn Incoming,
        terms: &Terms,
        got: &mut usize,
        is_over: bool,
    ) -> Looked {
        // An error is the next call's to tell, and to ask for it would take it off the socket.
        if *got > 0 && self.ends_in_error() {
            self.lose_error();
            return Looked::Done(Ok(*got));
        }
        let mut there = 0;
        if terms.peeks() && terms.least > 1 && terms.patient && !is_over {
            there = match self.count_for_peek(terms) {
                Ok(Some(there)) => there,
                Ok(None) => return Looked::Again,
                Err(error) => return Looked::Done(Err(error)),
            };
        }
        if there == 0 || there >= terms.least || self.record.has(flag::PEER_FIN) {
            let asked = ReceiveRequest {
                len: terms.len - *got,
                flags: terms.flags,
                glance: *got == 0 && !terms.patient,
                begun: *got > 0,
            };
            match self.take(into, asked) {
                Ok(TakeStep::Again) => return Looked::Again,
                Ok(TakeStep::Moved(n)) => *got += n,
                Ok(TakeStep::Empty) => {}
                Ok(TakeStep::Eof) if *got == 0 => {
                    self.take_notes_of_end(into, terms.len);
                    return Looked::Done(Ok(0));
                }
                Ok(TakeStep::Mark | TakeStep::Eof) => return Looked::Done(Ok(*got)),
                Err(error) if *got > 0 => {
                    self.keep_error(error);
                    self.lose_error();
                    return Looked::Done(Ok(*got));
                }
                Err(error) => return Looked::Done(Err(self.report(error))),
            }
        }
        self.guard();
        let is_enough = *got >= terms.least || terms.peeks() || into.is_complete();
        if *got >= terms.least || (is_enough && *got > 0) {
            return Looked::Done(Ok(*got));
        }
        Looked::Wait { there }
    }

    /// A peek leaves what is there: it is made when there is enough. `None`: look again.
    fn count_for_peek(&self, terms: &Terms) -> Result<Option<usize>, Errno> {
        let asked = ReceiveRequest {
            len: terms.len,
            flags: terms.flags,
            glance: false,
            begun: false,
        };
        match self.take(&mut Bin, asked) {
            Ok(TakeStep::Again) => Ok(None),
            // What stands before an urgent byte is enough: what is behind comes with a later call.
            Ok(TakeStep::Moved(n)) if self.has_urgent() => Ok(Some(n.max(terms.least))),
            Ok(TakeStep::Moved(n)) => Ok(Some(n)),
            Ok(_) => Ok(Some(0)),
            Err(error) => Err(self.report(error)),
        }
    }

    /// Bytes that make a poll say that there are some. Only TCP's heeds what the program has set.
    pub fn least_to_tell(&self) -> usize {
        match self.record.is_unix() {
            true => 1,
            false => self.lowat(),
        }
    }

    #[inline]
    pub fn lowat(&self) -> usize {
        self.record.recv_lowat.load(Ordering::Relaxed).max(1) as usize
    }

    /// Takes what is there now.
    fn take(&self, into: &mut dyn Incoming, asked: ReceiveRequest) -> Result<TakeStep, Errno> {
        let gate = &self.record.rx.gate;
        if !gate.is_closed() && !begin_rx(self) && gate.enter() {
            let result = self.take_plain(into, asked);
            gate.leave();
            return result;
        }
        let mut held = self.lock_rx().ok_or(Errno::AGAIN)?;
        if !gate.is_closed() {
            return Ok(TakeStep::Again);
        }
        if chaos::strikes() {
            chaos_wish(self, held.state());
        }
        if self.record.has(flag::BROKEN) && held.state().wants_ring() {
            self.ask_past_ring(held.state());
        }
        let result = if asked.flags & MSG_PEEK != 0 {
            self.settle(&mut self.receiver(held.state()))?;
            let mut ahead = held.state().clone();
            let mut rx = Receiver {
                peek: true,
                ..self.receiver(&mut ahead)
            };
            self.take_locked(&mut rx, into, asked)
        } else {
            let mut rx = self.receiver(held.state());
            self.take_locked(&mut rx, into, asked)
        };
        self.note_carriers(None, Some(held.state()));
        result
    }

    /// Not under management yet: kernel TCP as it is, without waiting.
    fn take_plain(
        &self,
        into: &mut dyn Incoming,
        asked: ReceiveRequest,
    ) -> Result<TakeStep, Errno> {
        if asked.begun && tcp::at_mark(self.socket) {
            return Ok(TakeStep::Mark);
        }
        let flags = RecvFlags::from_bits_retain((asked.flags & MSG_PEEK) as u32);
        match into.kernel_recv(self.socket, asked.len, flags) {
            Ok(0) if asked.len > 0 => Ok(TakeStep::Eof),
            Ok(n) => {
                self.record
                    .rx
                    .counts
                    .kernel_bytes
                    .fetch_add(n as u64, Ordering::Relaxed);
                if asked.flags & MSG_PEEK == 0 {
                    self.record.count_unix(Way::In, n as isize);
                }
                Ok(TakeStep::Moved(n))
            }
            Err(Errno::AGAIN) => Ok(TakeStep::Empty),
            Err(error) => Err(error),
        }
    }

    fn take_locked(
        &self,
        rx: &mut Receiver<'_, Rings>,
        into: &mut dyn Incoming,
        asked: ReceiveRequest,
    ) -> Result<TakeStep, Errno> {
        let (mut got, mut shown) = (0, 0);
        while got < asked.len {
            let rest = ReceiveRequest {
                len: asked.len - got,
                begun: asked.begun || got > 0,
                ..asked
            };
            let look = self.look(rx)?;
            match self.hear_before(rx, look)? {
                Heard::Record => continue,
                Heard::Nothing => break,
                Heard::Plain | Heard::End(_) => {}
            }
            let step = match look {
                Look::Ring(0) => break,
                Look::Kernel { .. } if !rest.begun && !rx.peek && rx.stays_on_kernel() => {
                    return self.pull_all(rx, into, rest.len);
                }
                Look::Ring(n) => self.pull_ring(rx, into, n.min(rest.len as u64)),
                Look::Kernel { .. } => self.pull_kernel(rx, into, rest, got == 0, &mut shown),
            };
            match step {
                Ok(TakeStep::Again) => {}
                Ok(TakeStep::Moved(n)) => {
                    got += n;
                    if into.is_complete() {
                        break;
                    }
                }
                Ok(_) if got > 0 => break,
                Err(error) if got > 0 => {
                    self.keep_error(error);
                    break;
                }
                // Of the program's memory, not of the connection.
                Err(Errno::FAULT) => return Err(Errno::FAULT),
                other => return self.ended(rx, other),
            }
        }
        if got > 0 {
            Counts::add(&self.record.rx.counts.messages, u64::from(!rx.peek));
            // The kernel's reader keeps up with the program: an urgent byte that comes now finds both in one
            // place. If it fails, the next call does too.
            if !rx.peek && rx.has_left_ring() {
                let _ = self.settle(rx);
            }
            return Ok(TakeStep::Moved(got));
        }
        if asked.len > 0 && self.should_probe(asked.glance) {
            return self.probe(rx);
        }
        Ok(TakeStep::Empty)
    }

    /// What the kernel brings next may be a record.
    fn hear_before(&self, rx: &mut Receiver<'_, Rings>, look: Look) -> Result<Heard, Errno> {
        if !matches!(look, Look::Kernel { .. }) || !self.record.has(flag::RECORD_MAY_COME) {
            return Ok(Heard::Plain);
        }
        let heard = self.hear(rx)?;
        // No record has an urgent byte.
        let urgent = matches!(heard, Heard::Nothing) && tcp::at_mark(self.socket);
        Ok(if urgent { Heard::Plain } else { heard })
    }

    fn pull_ring(
        &self,
        rx: &mut Receiver<'_, Rings>,
        into: &mut dyn Incoming,
        n: u64,
    ) -> Result<TakeStep, Errno> {
        let slots = rx.pull(n, into);
        if into.has_failed() {
            return Err(Errno::FAULT);
        }
        self.ring_space(slots);
        if !rx.peek {
            Counts::add(&self.record.rx.counts.ring_bytes, n);
            if !self.record.has(flag::UPGRADED) {
                self.record.set(flag::UPGRADED);
            }
        }
        Ok(TakeStep::Moved(n as usize))
    }

    /// Wakes a sender who waits for space.
    pub(super) fn ring_space(&self, slots: netstack::ring::Slots) {
        if !self.link.ring(&self.link.rx_shared().room.space, slots) {
            // It sleeps without a bell that we know: our own direction's mark reaches it.
            send::poke(self);
        }
    }

    #[inline]
    pub(super) fn look(&self, rx: &mut Receiver<'_, Rings>) -> Result<Look, Errno> {
        if self.record.has(flag::BROKEN) {
            return Ok(BY_KERNEL);
        }
        rx.look().map_err(|_| self.broken())
    }
}

/// As the kernel carries it, with no end known.
const BY_KERNEL: Look = Look::Kernel {
    skip: 0,
    limit: u64::MAX,
};

/// Once the reasons for the kernel are gone, a ring is welcome again. Not before the direction is under management:
/// until then a thread may sleep in the kernel's own receive, where nothing tells it of a ring. Under the receiving lock.
pub fn prefer_ring(conn: &Conn<'_>, state: &mut RxState) {
    let is_managed = conn.record.rx.gate.is_closed();
    if is_managed && !state.wants_ring() && conn.may_use_ring() {
        conn.link.mine().shared.store(0, Ordering::Release);
        let slots = conn.receiver(state).wish(true);
        conn.ring_space(slots);
    }
}

/// Throws away what the kernel carries a second time: the next reader may not know how to, and if
/// this process ends the kernel takes it for unread, and resets the connection.
pub fn settle(conn: &Conn<'_>) {
    if !conn.record.rx.gate.is_closed() {
        return;
    }
    if let Some(mut held) = conn.lock_rx() {
        let _ = conn.settle(&mut conn.receiver(held.state()));
    }
}

/// Asks the sender to go back to the kernel.
pub fn ask_for_kernel(conn: &Conn<'_>) {
    if let Some(mut held) = conn.lock_rx() {
        let slots = conn.receiver(held.state()).wish(false);
        drop(held);
        conn.ring_space(slots);
    }
}

/// A test aid: the receiver changes its mind about carriers.
#[cold]
pub(super) fn chaos_wish(conn: &Conn<'_>, state: &mut RxState) {
    let ring = chaos::random() & 1 == 0 && conn.may_use_ring();
    let slots = conn.receiver(state).wish(ring);
    conn.link.ring(&conn.link.rx_shared().room.space, slots);
}
