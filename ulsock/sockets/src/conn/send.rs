//! Sending on a managed connection: the call, and one step of it on the ring or by the kernel.

mod carrier;
pub mod in_place;

use std::sync::atomic::Ordering;

use libc::{MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL, c_int};
use netstack::ring::{Hostile, Sender, Slots};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::begin::begin_tx;
use super::buffers::Outgoing;
use super::kept::KeptConnection;
use super::pinned_calls::PinnedCall;
use super::wait::Over;
use super::wait_space::{self, RoomSeen, Wanted};
use super::{Conn, Handle, nic};
use crate::runtime::chaos;
use crate::runtime::deadline::Deadline;
use crate::runtime::signal::Seen;
use crate::runtime::thread::Thread;
use crate::runtime::way::Way;
use crate::state::record::{Counts, flag};
use os::tcp;
use rendezvous::rings::Rings;
use shm::order;

pub use carrier::{leave, leave_before_urgent, poke, serve};

/// What is missing for the rest of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    Nothing,
    RingSpace,
    KernelSpace,
    /// Another thread takes the connection to the link just now.
    Link,
}

struct SendStep {
    moved: usize,
    lack: Lack,
}

impl SendStep {
    fn lacks(moved: usize, lack: Lack) -> SendStep {
        SendStep { moved, lack }
    }
}

/// Sends `len` bytes; `None` when nothing was sent and the call has to begin again: the connection is not managed any
/// more, or a handler with SA_RESTART has run.
pub fn send(
    handle: Handle,
    out: &mut dyn Outgoing,
    len: usize,
    flags: c_int,
) -> Option<Result<usize, Errno>> {
    let (mut midway, mut kept) = (PinnedCall::default(), KeptConnection::default());
    let result = transmit(handle, out, len, flags, &mut midway, &mut kept);
    midway.end();
    kept.end();
    result
}

fn transmit(
    mut handle: Handle,
    out: &mut dyn Outgoing,
    len: usize,
    flags: c_int,
    midway: &mut PinnedCall,
    kept: &mut KeptConnection,
) -> Option<Result<usize, Errno>> {
    let me = Thread::me()?;
    me.rhythm.note_sent();
    let seen = Seen::now(me);
    let mut sent = 0;
    let (mut deadline, mut patient) = (None, None);
    loop {
        let Some(conn) = Conn::enter(handle) else {
            return (sent > 0).then_some(Ok(sent));
        };
        conn.before_send(len);
        // As in the kernel, what holds when the call begins.
        let patient = *patient.get_or_insert_with(|| conn.is_patient(flags));
        let before = RoomSeen::by(&conn);
        let step = match conn.step(out, len - sent, flags) {
            Ok(step) => step,
            Err(error) if sent > 0 => {
                conn.end_after_part(error);
                return Some(Ok(sent));
            }
            Err(error) => return Some(Err(fail(conn, error, flags, deadline.is_some()))),
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
            (super::readiness::told().send_blocked)(handle);
            let nothing = Err(Errno::AGAIN);
            return Some(if sent > 0 { Ok(sent) } else { nothing });
        }
        let deadline = *deadline.get_or_insert_with(|| {
            Deadline::of_socket(conn.record.send_timeout_us.load(Ordering::Relaxed))
        });
        midway.note(sent > 0 || deadline.has_end(), handle);
        let wanted = Wanted::new(step.lack, len - sent, before);
        let woken = wait_space::wait(conn, wanted, deadline, seen, kept);
        handle = handle.here();
        match Over::of(woken, seen, me, deadline) {
            None => {}
            Some(_) if sent > 0 => return Some(Ok(sent)),
            Some(Over::Fails(error)) => return Some(Err(error)),
            Some(Over::Restarts) => return None,
        }
    }
}

/// EPIPE comes with its signal, outside of the critical section; on a Unix socket not if the call has waited.
#[cold]
fn fail(conn: Conn<'_>, error: Errno, flags: c_int, waited: bool) -> Errno {
    if waited && error == Errno::PIPE && conn.record.is_unix() {
        return conn.end_of_wait();
    }
    let error = conn.report(error);
    drop(conn);
    if error == Errno::PIPE && flags & MSG_NOSIGNAL == 0 {
        crate::runtime::signal::broken_pipe();
    }
    error
}

impl Conn<'_> {
    /// May a call with these flags wait?
    fn is_patient(&self, flags: c_int) -> bool {
        flags & MSG_DONTWAIT == 0 && !self.record.has(flag::NONBLOCK)
    }

    fn before_send(&self, len: usize) {
        self.heed_orders();
        // The peer has repeated its last bytes to the kernel, and this side may never receive again.
        if self.peer_closed() {
            super::recv::settle(self);
        }
        if self.is_nic() {
            self.join_before_send(len);
        }
    }

    /// Moves what can be moved now.
    fn step(&self, out: &mut dyn Outgoing, len: usize, flags: c_int) -> Result<SendStep, Errno> {
        let gate = &self.record.tx.gate;
        if !gate.is_closed() && !begin_tx(self) && gate.enter() {
            let result = self.step_plain(out, len, flags);
            gate.leave();
            return result;
        }
        let mut held = self.lock_tx().ok_or(Errno::AGAIN)?;
        if !gate.is_closed() {
            return Ok(SendStep::lacks(0, Lack::KernelSpace));
        }
        let mut tx = self.sender(held.state());
        let result = self.step_locked(&mut tx, out, len, flags);
        self.note_carriers(Some(held.state()), None);
        result
    }

    /// Not under management yet: kernel TCP as it is, without waiting.
    fn step_plain(
        &self,
        out: &mut dyn Outgoing,
        len: usize,
        flags: c_int,
    ) -> Result<SendStep, Errno> {
        let flags = SendFlags::from_bits_retain((flags & !MSG_DONTWAIT) as u32);
        match out.kernel_send(self.socket, len, flags) {
            Ok(n) => {
                order::spoke_by_kernel();
                self.record
                    .tx
                    .counts
                    .kernel_bytes
                    .fetch_add(n as u64, Ordering::Relaxed);
                self.record.count_unix(Way::Out, n as isize);
                Ok(SendStep {
                    moved: n,
                    lack: if n == len || n == 0 {
                        Lack::Nothing
                    } else {
                        Lack::KernelSpace
                    },
                })
            }
            Err(Errno::AGAIN) => Ok(SendStep::lacks(0, Lack::KernelSpace)),
            Err(error) => Err(error),
        }
    }

    fn step_locked(
        &self,
        tx: &mut Sender<'_, Rings>,
        out: &mut dyn Outgoing,
        len: usize,
        flags: c_int,
    ) -> Result<SendStep, Errno> {
        if self.is_joining() {
            return Ok(SendStep::lacks(0, Lack::Link));
        }
        if self.is_nic() && tx.state.on_ring() && self.record.has(flag::SHUT) {
            return Err(Errno::PIPE);
        }
        let patient = self.is_patient(flags);
        Counts::add(&self.record.tx.counts.messages, 1);
        if tx.state.on_ring() {
            self.glance_before_send();
        }
        if chaos::strikes() && !self.is_nic() {
            self.shrink(tx).map_err(|Hostile| self.broken())?;
        }
        let mut moved = 0;
        loop {
            if out.needs_kernel() && tx.state.on_ring() && !tx.wishes_change() {
                let slots = self.leave_ring(tx).map_err(|Hostile| self.broken())?;
                self.ring_data(tx, slots);
            } else if !out.needs_kernel() || tx.state.on_ring() {
                self.follow_wish(tx).map_err(|Hostile| self.broken())?;
            }
            if self.must_flush(tx) && !self.flush_resend(tx)? {
                return Ok(SendStep::lacks(moved, Lack::KernelSpace));
            }
            if !tx.state.on_ring() {
                return self.by_kernel(tx, out, len, flags, moved);
            }
            let ended = self.push_what_fits(tx, out, len, &mut moved, patient)?;
            // Once more after publishing: a receiver that asked for the kernel at this very moment
            // may have seen neither these bytes nor a bell.
            if tx.wishes_change() {
                continue;
            }
            if moved == len || ended {
                return Ok(SendStep::lacks(moved, Lack::Nothing));
            }
            let has_room = self.make_room(tx, patient);
            if !has_room.map_err(|Hostile| self.broken())? {
                return Ok(SendStep::lacks(moved, Lack::RingSpace));
            }
        }
    }

    /// Into the ring; whether `out` has ended before the program thought, as a file may, or memory that is not what it says.
    fn push_what_fits(
        &self,
        tx: &mut Sender<'_, Rings>,
        out: &mut dyn Outgoing,
        len: usize,
        moved: &mut usize,
        patient: bool,
    ) -> Result<bool, Errno> {
        let want = (len - *moved) as u64;
        let room = tx.free(want).map_err(|Hostile| self.broken())?;
        // As in the kernel, what several threads send is not mixed while there is room for it.
        let whole = patient && want <= tx.size() / 2;
        if whole && room < want {
            return Ok(false);
        }
        let pushed = self.push(tx, out, len - *moved);
        let n = pushed.map_err(|Hostile| self.broken())?;
        *moved += n;
        if out.has_failed() && *moved == 0 {
            return Err(Errno::FAULT);
        }
        Ok((n as u64) < want.min(room))
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
        let to_copy = match self.record.has(flag::COPIED) {
            true => self.before_copy(tx),
            false => None,
        };
        let n = tx.push(len as u64, out, |slots| {
            unheard |= !self.link.ring(wire, slots)
        })?;
        if let Some(to_copy) = to_copy {
            self.copy(&to_copy, n, tx.size());
        }
        Counts::add(&self.record.tx.counts.ring_bytes, n);
        if self.is_nic() {
            nic::has_sent(self.link);
        }
        if unheard {
            self.poke(tx);
        }
        Ok(n as usize)
    }

    /// Wakes whoever waits for data of ours.
    pub(super) fn ring_data(&self, tx: &mut Sender<'_, Rings>, slots: Slots) {
        if !self.link.ring(&self.link.tx_shared().wait.data, slots) {
            self.poke(tx);
        }
    }

    fn by_kernel(
        &self,
        tx: &mut Sender<'_, Rings>,
        out: &mut dyn Outgoing,
        len: usize,
        flags: c_int,
        mut moved: usize,
    ) -> Result<SendStep, Errno> {
        self.note_kernel_call();
        let flags = SendFlags::from_bits_retain((flags & !MSG_DONTWAIT) as u32);
        while moved < len {
            match out.kernel_send(self.socket, len - moved, flags) {
                Ok(0) => break,
                Ok(n) => {
                    order::spoke_by_kernel();
                    tx.sent_by_kernel(n as u64);
                    self.has_spoken(tx.state);
                    Counts::add(&self.record.tx.counts.kernel_bytes, n as u64);
                    moved += n;
                }
                Err(Errno::AGAIN) => {
                    return Ok(SendStep {
                        moved,
                        lack: Lack::KernelSpace,
                    });
                }
                Err(Errno::INTR) => {}
                // Under the lock: a receive of another thread would take what is left for the peer's end.
                Err(error) if moved == 0 => {
                    self.keep_error(error);
                    return Err(error);
                }
                Err(error) => {
                    self.end_after_part(error);
                    break;
                }
            }
        }
        if flags.bits() & MSG_MORE as u32 != 0 && !self.record.is_unix() {
            self.record.set(flag::HELD_BACK);
        } else if self.record.has(flag::HELD_BACK) {
            self.record
                .put(flag::HELD_BACK, tcp::is_corked(self.socket).unwrap_or(true));
        }
        if self.is_kept_from_ring() {
            self.let_go_of_tail();
        }
        Ok(SendStep {
            moved,
            lack: Lack::Nothing,
        })
    }
}
