//! Sending on a managed connection.

use std::sync::atomic::Ordering;

use libc::{c_int, MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL};
use netstack::ring::mark::LEVELS;
use netstack::ring::{Hostile, Sender};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::begin::begin_tx;
use super::buffers::Outgoing;
use super::midway::Midway;
use super::space;
use super::wait::{Deadline, Woken};
use super::{nic, Conn, Handle};
use crate::chaos;
use crate::link::Rings;
use crate::process;
use crate::reason::Reason;
use crate::record::{flag, Counts};
use crate::signal::Seen;
use crate::sys::tcp;
use crate::{spin, thread::Thread};

/// A ring whose consumer keeps up grows to this level, larger ones only hold what nobody reads.
pub const BUSY_LEVEL: u8 = 2;

/// The largest ring of all holds as much as kernel TCP would take with nobody reading: when it is
/// full, the kernel would be too. A smaller one gives way to a larger or to the kernel.
pub fn may_grow_or_spill(tx: &Sender<'_, Rings>) -> bool {
    (tx.level() as usize) < LEVELS - 1
}

/// What is missing for the rest of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    Nothing,
    RingSpace,
    KernelSpace,
    /// Another thread takes the connection to the link just now.
    Link,
}

struct Step {
    moved: usize,
    lack: Lack,
}

/// Sends `len` bytes; `None` when the connection is not managed any more and nothing was sent.
pub fn send(
    handle: Handle,
    out: &mut dyn Outgoing,
    len: usize,
    flags: c_int,
) -> Option<Result<usize, Errno>> {
    let mut midway = Midway::default();
    let result = transmit(handle, out, len, flags, &mut midway);
    midway.end();
    result
}

fn transmit(
    handle: Handle,
    out: &mut dyn Outgoing,
    len: usize,
    flags: c_int,
    midway: &mut Midway,
) -> Option<Result<usize, Errno>> {
    let me = Thread::me()?;
    let mut seen = Seen::now(me);
    let mut sent = 0;
    let (mut deadline, mut patient) = (None, None);
    loop {
        let Some(conn) = Conn::enter(handle) else {
            return (sent > 0).then_some(Ok(sent));
        };
        // The peer has repeated its last bytes to the kernel, and this side may never receive again.
        if conn.peer_closed() {
            super::recv::settle(&conn);
        }
        // As in the kernel, what holds when the call begins.
        let patient = *patient
            .get_or_insert_with(|| flags & MSG_DONTWAIT == 0 && !conn.record.has(flag::NONBLOCK));
        if conn.is_nic() {
            conn.join_before_send(len);
        }
        let step = match conn.step(out, len - sent, flags) {
            Ok(step) => step,
            Err(error) if sent > 0 => {
                conn.keep_error(error);
                return Some(Ok(sent));
            }
            Err(error) => {
                let error = conn.report(error);
                return Some(Err(fail(conn, error, flags)));
            }
        };
        conn.guard();
        sent += step.moved;
        if sent == len || step.lack == Lack::Nothing {
            return Some(Ok(sent));
        }
        if step.lack == Lack::Link {
            midway.note(sent > 0, handle);
            continue;
        }
        if !patient {
            drop(conn);
            crate::epoll::send_blocked(handle);
            return Some(if sent > 0 {
                Ok(sent)
            } else {
                Err(Errno::AGAIN)
            });
        }
        let timeout = conn.record.send_timeout_us.load(Ordering::Relaxed);
        let deadline = *deadline.get_or_insert_with(|| Deadline::of_socket(timeout));
        midway.note(sent > 0 || timeout != 0, handle);
        let ended = match space::wait(conn, step.lack, (len - sent) as u64, deadline, seen) {
            Woken::Look(_) => None,
            // As in the kernel: with a timeout set, SA_RESTART does not restart.
            Woken::Interrupted => (seen.ends_call(me) || timeout != 0).then_some(Errno::INTR),
            Woken::TimedOut => Some(Errno::AGAIN),
            Woken::Failed(error) => Some(error),
        };
        match ended {
            Some(_) if sent > 0 => return Some(Ok(sent)),
            Some(error) => return Some(Err(error)),
            None => {}
        }
    }
}

/// EPIPE comes with its signal, outside of the critical section.
#[cold]
fn fail(conn: Conn<'_>, error: Errno, flags: c_int) -> Errno {
    drop(conn);
    if error == Errno::PIPE && flags & MSG_NOSIGNAL == 0 {
        crate::signal::broken_pipe();
    }
    error
}

impl Conn<'_> {
    /// Moves what can be moved now.
    fn step(&self, out: &mut dyn Outgoing, len: usize, flags: c_int) -> Result<Step, Errno> {
        let gate = &self.record.tx.gate;
        if !gate.is_closed() && !begin_tx(self) && gate.enter() {
            let result = self.step_plain(out, len, flags);
            gate.leave();
            return result;
        }
        let mut held = self.lock_tx().ok_or(Errno::AGAIN)?;
        if !gate.is_closed() {
            return Ok(Step {
                moved: 0,
                lack: Lack::KernelSpace,
            });
        }
        let mut tx = self.sender(held.state());
        let result = self.step_locked(&mut tx, out, len, flags);
        self.note_carriers(Some(held.state()), None);
        result
    }

    /// Not under management yet: kernel TCP as it is, without waiting.
    fn step_plain(&self, out: &mut dyn Outgoing, len: usize, flags: c_int) -> Result<Step, Errno> {
        let flags = SendFlags::from_bits_retain((flags & !MSG_DONTWAIT) as u32);
        match out.kernel_send(self.socket, len, flags) {
            Ok(n) => {
                self.record
                    .tx
                    .counts
                    .kernel_bytes
                    .fetch_add(n as u64, Ordering::Relaxed);
                Ok(Step {
                    moved: n,
                    lack: if n == len || n == 0 {
                        Lack::Nothing
                    } else {
                        Lack::KernelSpace
                    },
                })
            }
            Err(Errno::AGAIN) => Ok(Step {
                moved: 0,
                lack: Lack::KernelSpace,
            }),
            Err(error) => Err(error),
        }
    }

    fn step_locked(
        &self,
        tx: &mut Sender<'_, Rings>,
        out: &mut dyn Outgoing,
        len: usize,
        flags: c_int,
    ) -> Result<Step, Errno> {
        let mut moved = 0;
        if self.is_joining() {
            return Ok(Step {
                moved,
                lack: Lack::Link,
            });
        }
        if self.is_nic() && tx.state.on_ring() && self.record.has(flag::SHUT) {
            return Err(Errno::PIPE);
        }
        let patient = flags & MSG_DONTWAIT == 0 && !self.record.has(flag::NONBLOCK);
        Counts::add(&self.record.tx.counts.messages, 1);
        if tx.state.on_ring() {
            self.glance_before_send();
        }
        if chaos::strikes() && !self.is_nic() {
            self.shrink(tx).map_err(|Hostile| self.broken())?;
        }
        loop {
            self.follow_wish(tx).map_err(|Hostile| self.broken())?;
            if self.must_flush(tx) && !self.flush_resend(tx)? {
                return Ok(Step {
                    moved,
                    lack: Lack::KernelSpace,
                });
            }
            if !tx.state.on_ring() {
                return self.by_kernel(tx, out, len, flags, moved);
            }
            let want = (len - moved) as u64;
            let room = tx.free(want).map_err(|Hostile| self.broken())?;
            // As in the kernel, what several threads send is not mixed while there is room for it.
            let whole = patient && want <= tx.size() / 2;
            let mut ended = false;
            if !whole || room >= want {
                let n = self
                    .push(tx, out, len - moved)
                    .map_err(|Hostile| self.broken())?;
                moved += n;
                // A file has ended before the program thought.
                ended = (n as u64) < want.min(room);
            }
            // Once more after publishing: a receiver that asked for the kernel at this very moment
            // may have seen neither these bytes nor a bell.
            if tx.wishes_change() {
                continue;
            }
            if moved == len || ended {
                return Ok(Step {
                    moved,
                    lack: Lack::Nothing,
                });
            }
            if !self
                .make_room(tx, patient)
                .map_err(|Hostile| self.broken())?
            {
                return Ok(Step {
                    moved,
                    lack: Lack::RingSpace,
                });
            }
        }
    }

    /// Changes carriers if the receiver wishes it and nothing stands in the way.
    #[inline]
    fn follow_wish(&self, tx: &mut Sender<'_, Rings>) -> Result<(), Hostile> {
        if tx.state.on_ring() {
            if tx.wishes_change() {
                let slots = match self.is_nic() || self.link.peer_shut_both() {
                    true => self.leave_ring(tx)?,
                    false => tx.yield_ring()?,
                };
                self.ring_data(tx, slots);
            } else if self
                .record
                .has(flag::PINNED | flag::PEER_FIN | flag::SHUT | flag::AWAY | flag::FAIL_OVER)
                || self.peer_closed()
                || chaos::strikes()
            {
                let slots = self.leave_ring(tx)?;
                self.ring_data(tx, slots);
            }
        } else if !self.is_nic() && tx.wishes_change() && self.may_enter(tx) {
            if let Some(slots) = tx.enter_ring() {
                self.record.set(flag::UPGRADED);
                self.record.set_reason(Reason::None);
                self.ring_data(tx, slots);
            }
        }
        Ok(())
    }

    /// Nothing may be held back in the kernel's queue: the bytes behind it would overtake in time.
    /// Bytes that are sent and not acknowledged do not count: the receiver's kernel has them, and
    /// it delays the acknowledgement when its answers no longer go through the kernel.
    fn may_enter(&self, tx: &Sender<'_, Rings>) -> bool {
        self.may_use_ring()
            && !tx.state.must_resend()
            && tx.settled()
            && tcp::not_sent(self.socket).is_ok_and(|queued| queued == 0 || self.push_out(queued))
    }

    #[inline]
    fn push(
        &self,
        tx: &mut Sender<'_, Rings>,
        out: &mut dyn Outgoing,
        len: usize,
    ) -> Result<usize, Hostile> {
        let wire = &self.link.tx_shared().wait.data;
        let mut unheard = false;
        let n = tx.push(len as u64, out, |slots| {
            unheard |= !self.link.ring(wire, slots)
        })?;
        Counts::add(&self.record.tx.counts.ring_bytes, n);
        if self.is_nic() {
            nic::has_sent(self.link);
        }
        if unheard {
            self.poke(tx);
        }
        Ok(n as usize)
    }

    /// After a message was put on the ring: wakes whom it concerns, and follows a wish that came
    /// meanwhile.
    #[cold]
    pub(super) fn follow_up(&self, tx: &mut Sender<'_, Rings>, slots: netstack::ring::Slots) {
        self.ring_data(tx, slots);
        if tx.wishes_change() && self.follow_wish(tx).is_ok() {
            let _ = self.flush_resend(tx);
        }
        self.note_carriers(Some(tx.state), None);
    }

    /// Wakes whoever waits for data of ours.
    pub(super) fn ring_data(&self, tx: &mut Sender<'_, Rings>, slots: netstack::ring::Slots) {
        if !self.link.ring(&self.link.tx_shared().wait.data, slots) {
            self.poke(tx);
        }
    }

    /// A sleeper whose bell we do not have: it hears its kernel socket.
    #[cold]
    fn poke(&self, tx: &mut Sender<'_, Rings>) {
        let slots = match self.is_nic() || self.link.peer_shut_both() {
            true => self.leave_ring(tx).unwrap_or(0),
            false => tx.leave_with_poke(),
        };
        self.link.ring(&self.link.tx_shared().wait.data, slots);
        let _ = self.flush_resend(tx);
    }

    fn by_kernel(
        &self,
        tx: &mut Sender<'_, Rings>,
        out: &mut dyn Outgoing,
        len: usize,
        flags: c_int,
        mut moved: usize,
    ) -> Result<Step, Errno> {
        self.note_kernel_call();
        let flags = SendFlags::from_bits_retain((flags & !MSG_DONTWAIT) as u32);
        while moved < len {
            match out.kernel_send(self.socket, len - moved, flags) {
                Ok(0) => break,
                Ok(n) => {
                    tx.sent_by_kernel(n as u64);
                    self.has_spoken();
                    Counts::add(&self.record.tx.counts.kernel_bytes, n as u64);
                    moved += n;
                }
                Err(Errno::AGAIN) => {
                    return Ok(Step {
                        moved,
                        lack: Lack::KernelSpace,
                    })
                }
                Err(Errno::INTR) => {}
                Err(error) if moved > 0 => {
                    self.keep_error(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if flags.bits() & MSG_MORE as u32 != 0 {
            self.record.set(flag::HELD_BACK);
        } else if self.record.has(flag::HELD_BACK) {
            self.record
                .put(flag::HELD_BACK, tcp::is_corked(self.socket).unwrap_or(true));
        }
        if self.is_kept_from_ring() {
            self.let_go_of_tail();
        }
        Ok(Step {
            moved,
            lack: Lack::Nothing,
        })
    }

    /// The ring is full: a larger one, or the kernel if nobody reads; `false`: wait for space.
    #[cold]
    fn make_room(&self, tx: &mut Sender<'_, Rings>, patient: bool) -> Result<bool, Hostile> {
        if self.is_nic() {
            let stalled = self.is_stalled();
            if stalled {
                self.leave_link(tx)?;
            }
            return Ok(stalled);
        }
        let largest = self.largest();
        // A consumer that keeps up is waited for rather than given a ring beyond the cache's size.
        if tx.level() >= BUSY_LEVEL.min(largest) && self.spin_for_space(tx) {
            return Ok(true);
        }
        let stalled = !tx.consumer_moved()?;
        let allowed = if stalled {
            largest
        } else {
            largest.min(BUSY_LEVEL)
        };
        if self.grow(tx, allowed) {
            return Ok(true);
        }
        let now = stalled || (!patient && self.spills_at_once());
        let spill = now && may_grow_or_spill(tx);
        if spill {
            let slots = self.leave_ring(tx)?;
            self.ring_data(tx, slots);
        }
        Ok(spill)
    }

    /// The largest ring level that configuration and program allow.
    pub(super) fn largest(&self) -> u8 {
        let wanted = self.record.largest.load(Ordering::Relaxed);
        wanted.min(process::config().largest.into()) as u8
    }

    /// Is the largest ring so small that the kernel, which takes far more, has the rest of a send that
    /// does not wait?
    pub(super) fn spills_at_once(&self) -> bool {
        self.largest() < BUSY_LEVEL
    }

    fn spin_for_space(&self, tx: &Sender<'_, Rings>) -> bool {
        let head = &tx.shared.consumer.head;
        let before = head.load(Ordering::Relaxed);
        let near = || self.peer_is_near();
        spin::until(&self.me.spin, near, || {
            head.load(Ordering::Relaxed) != before || self.me.deferred.any()
        }) && head.load(Ordering::Relaxed) != before
    }

    fn grow(&self, tx: &mut Sender<'_, Rings>, allowed: u8) -> bool {
        let next = tx.level() + 1;
        let (segment, conn, side) = (&self.link.segment, self.link.conn, self.link.side);
        if next > allowed || !segment.populate(next, conn, side) {
            return false;
        }
        let Some(slots) = tx.grow(allowed) else {
            return false;
        };
        self.note_growth(tx);
        self.ring_data(tx, slots);
        true
    }
}

/// Wakes a peer that sleeps without a bell that we know, through its kernel socket.
#[cold]
pub fn poke(conn: &Conn<'_>) {
    if let Some(mut held) = conn.lock_tx() {
        conn.poke(&mut conn.sender(held.state()));
    }
}

/// Leaves the ring at the next byte, if on it.
pub fn leave(conn: &Conn<'_>) {
    if let Some(mut held) = conn.lock_tx() {
        let mut tx = conn.sender(held.state());
        let slots = conn.leave_ring(&mut tx).unwrap_or(0);
        conn.ring_data(&mut tx, slots);
        conn.note_carriers(Some(held.state()), None);
    }
}

/// Serves a receiver that waits for its bytes to come through the kernel, without sending anything
/// new: called when a bell has rung, whatever it rang for.
pub fn serve(conn: &Conn<'_>) {
    if !conn.record.tx.gate.is_closed() || !conn.wished_away() {
        return;
    }
    if let Some(mut held) = conn.lock_tx() {
        let mut tx = conn.sender(held.state());
        if tx.state.on_ring() && tx.wishes_change() && conn.follow_wish(&mut tx).is_ok() {
            let _ = conn.flush_resend(&mut tx);
        }
        conn.note_carriers(Some(held.state()), None);
    }
}

impl Conn<'_> {
    /// The peer's wish stands at the kernel: a glance without the lock.
    fn wished_away(&self) -> bool {
        self.record.tx.carrier.load(Ordering::Relaxed) != 0
            && self.link.tx_shared().wait.wish.load(Ordering::Relaxed) & 1 == 0
    }
}
