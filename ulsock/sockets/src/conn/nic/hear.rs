//! What the kernel's stream brings to a connection that is on the link, or was (`[F17]` to `[F19]`, `[F21]`).

use std::sync::atomic::Ordering;

use netstack::failover::record::LENGTH;
use netstack::failover::{Arrived, Segment as _, Stage, Tip};
use netstack::ring::{Receiver, RxState, Sender};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::super::Conn;
use crate::state::record::flag;
use os::tcp;
use rendezvous::rings::Rings;
use shm::layout::NIC_LEVEL;

/// Of a sender's calls between two looks for a record that may never come.
const CALLS_PER_LOOK: u32 = 16;

/// What stands next in the kernel's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Bytes of the program, or nothing but such can come.
    Plain,
    /// A record, which has been read: look again.
    Record,
    /// Nothing that can be read yet.
    Nothing,
    /// The stream has ended, as far as the kernel knows.
    End(Result<(), Errno>),
}

impl Conn<'_> {
    /// Looks at the first bytes in the kernel. Under the receiving lock, not the sending one.
    #[cold]
    pub(in crate::conn) fn hear(&self, rx: &mut Receiver<'_, Rings>) -> Result<Heard, Errno> {
        let mut bytes = [0u8; LENGTH];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let n = match rustix::net::recv(self.socket, &mut bytes, flags) {
            Ok((0, _)) => return Ok(Heard::End(Ok(()))),
            Ok((n, _)) => n,
            Err(Errno::AGAIN) => return Ok(Heard::Nothing),
            Err(Errno::INTR) => return Ok(Heard::Record),
            Err(error) => {
                self.keep_error(error);
                return Ok(Heard::End(Err(error)));
            }
        };
        let Some(mut held) = self.lock_tx() else {
            return Ok(Heard::Nothing);
        };
        self.enter_link(held.state(), rx.state);
        let mut tx = self.sender(held.state());
        if !rx.state.on_ring() {
            let at = rx.state.taken_from_kernel();
            self.failover(tx.state, |side| side.took_up_to(at));
        }
        let arrived = self.failover(tx.state, |side| side.look(&bytes[..n], &self.segment()));
        let heard = self.failover(tx.state, |side| side.has_heard());
        let (stage, joined) = (self.stage(tx.state), self.is_joining());
        if joined && stage != Stage::Joining {
            self.record.clear(flag::JOINING);
        }
        match arrived.map_err(|_| self.broken())? {
            // Behind a record they wait until the ring has been read out.
            Arrived::Plain { .. } if rx.state.on_ring() && !heard => Err(self.broken()),
            Arrived::Plain { .. } => Ok(Heard::Plain),
            Arrived::Record => {
                self.throw_away(LENGTH)?;
                if stage == Stage::Frozen && !rx.state.on_ring() {
                    // It opened at this very moment: the ring may have bytes.
                    *rx.state = RxState::begin_on_ring(rx.state.pos, NIC_LEVEL);
                }
                if rx.state.on_ring() && heard {
                    let from = self.failover(tx.state, |side| side.at());
                    rx.mark_for_sender(from);
                }
                let tail = self.segment().tail();
                self.resume(&mut tx, tail);
                self.answer(&mut tx);
                self.end_trust_if_plain(tx.state);
                Ok(Heard::Record)
            }
            Arrived::NotYet if stage == Stage::Over => Err(self.broken()),
            Arrived::Part | Arrived::NotYet => Ok(Heard::Nothing),
        }
    }

    /// The peer's record, if one must come before the connection can be closed, has been read; or none will come,
    /// for the kernel's stream has ended.
    pub(in crate::conn) fn hear_out(&self) -> bool {
        if !self.record.has(flag::RECORD_MAY_COME) || !self.record.rx.gate.is_closed() {
            return true;
        }
        let Some(mut held) = self.lock_rx() else {
            return true;
        };
        let last = self.read_records(&mut self.receiver(held.state()));
        let Some(mut tx) = self.lock_tx() else {
            return true;
        };
        let has_ended = matches!(last, Ok(Heard::End(_)));
        has_ended
            || self.failover(tx.state(), |side| side.has_heard())
            || self.record.has(flag::BROKEN)
    }

    /// A program that only sends would never read the peer's record, without which `[F2]` forbids the next proposal. With no
    /// lock held. After a fail-over the record is on its way, so every send looks; after a promotion that was given up
    /// (`[F18]`) one may never come, so few do.
    #[inline]
    pub(super) fn hear_before_send(&self) {
        let record = self.record;
        if record.has(flag::RECORD_MAY_COME)
            && !record.has(flag::JOINING)
            && !record.tx.is_on_ring()
        {
            let calls = record.calls.load(Ordering::Relaxed);
            if record.rx.is_on_ring() || calls.is_multiple_of(CALLS_PER_LOOK) {
                self.hear_for_sender();
            }
        }
    }

    #[cold]
    fn hear_for_sender(&self) {
        if tcp::inq(self.socket).is_ok_and(|queued| (queued as usize) < LENGTH) {
            return;
        }
        let Some(mut held) = self.lock_rx() else {
            return;
        };
        let mut rx = self.receiver(held.state());
        // Consumes the mark that stands for the record, if nothing is left in the ring. Errors are the next call's.
        if self.read_records(&mut rx).is_ok() && rx.look().is_ok() {
            self.note_carriers(None, Some(rx.state));
        }
    }

    fn throw_away(&self, n: usize) -> Result<(), Errno> {
        let mut bytes = [0u8; LENGTH];
        rustix::net::recv(self.socket, &mut bytes[..n], RecvFlags::DONTWAIT).map(drop)
    }

    /// `[F18]`
    fn answer(&self, tx: &mut Sender<'_, Rings>) {
        let (tail, written) = (self.segment().tail(), tx.state.written);
        if let Some(record) = self.failover(tx.state, |side| side.answer(tail, written)) {
            self.owe(tx.state, &record);
            let _ = self.flush_resend(tx);
        }
    }

    /// Reads records that are the next thing from the kernel, so that what it has is what the program
    /// reads; says what is there instead. Under the receiving lock.
    pub(in crate::conn) fn read_records(
        &self,
        rx: &mut Receiver<'_, Rings>,
    ) -> Result<Heard, Errno> {
        let may_come = self.record.has(flag::RECORD_MAY_COME)
            || rx.state.on_ring() && self.record.has(flag::LOOK);
        if !self.record.has(flag::NIC) || !may_come || self.record.has(flag::BROKEN) {
            return Ok(Heard::Nothing);
        }
        loop {
            match self.hear(rx)? {
                Heard::Record => {}
                other => return Ok(other),
            }
        }
    }

    /// The kernel's stream has ended like this, and its bytes have been read: what it means. `None`: not
    /// what it says, as yet. Under the receiving lock.
    pub(in crate::conn) fn judge_end(
        &self,
        rx: &Receiver<'_, Rings>,
        end: Result<(), Errno>,
    ) -> Option<Result<(), Errno>> {
        let mut tx = self.lock_tx()?;
        // An error that was taken off the socket leaves what looks like an end.
        let end = self.untold().map_or(end, Err);
        let tip = match end {
            Ok(()) => Tip::Fin,
            Err(_) => Tip::Broken,
        };
        let tail = rx.state.on_ring().then(|| self.segment().tail());
        if !rx.state.on_ring() {
            let at = rx.state.taken_from_kernel();
            self.failover(tx.state(), |side| side.took_up_to(at));
        }
        match self.failover(tx.state(), |side| side.end(tip, tail, rx.state.pos))? {
            Tip::Fin => Some(Ok(())),
            Tip::Broken => Some(self.end_by_verdict(end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;

    use netstack::failover::Resume;
    use rustix::net::SendFlags;

    use super::*;
    use crate::conn::{demote, managed, nic};
    use crate::testing::{Fd, ON_KERNEL, Program, World};
    use rendezvous::reason::Reason;

    const KEY: u64 = 7;

    /// The end that connected has given a promotion up to which the other one has agreed: it does not know of that yet.
    fn give_up(conn: &Conn<'_>) {
        nic::begin(conn.record);
        let read = conn.lock_rx().expect("the lock").state().pos;
        let mut held = conn.lock_tx().expect("the lock");
        let gives_up = conn.failover(held.state(), |side| {
            side.took_up_to(read);
            side.propose(KEY, 0, read);
            side.give_up(conn.segment().tail())
        });
        assert!(gives_up && conn.record.has(flag::RECORD_MAY_COME));
    }

    /// A byte. A receive that does not wait asks the kernel now and then only, where a ring was expected.
    fn speak(from: (Program, Fd), to: (Program, Fd)) {
        assert_eq!(from.0.send(from.1, b"x"), Ok(1));
        let mut calls = (0..1_000_000).map(|_| to.0.receive(to.1, 1));
        assert!(calls.any(|got| got.is_ok()), "nothing comes");
    }

    #[test]
    fn a_record_is_no_byte_of_the_program() {
        let world = World::promoted();
        let near = || managed(world.near.0).expect("a connection of ours");
        world.client.run(|| demote(near(), Reason::Fork));
        for _ in 0..8 {
            speak((world.client, world.near), (world.server, world.far));
            speak((world.server, world.far), (world.client, world.near));
        }
        assert_eq!(world.client.carriers(world.near), ON_KERNEL);
        let end = world.client.run(|| {
            let conn = Conn::enter(near()).expect("it is managed");
            give_up(&conn);
            conn.stream_end().expect("an end")
        });
        let record = Resume {
            key: KEY,
            epoch: 1,
            received: 0,
            from: 0,
            written: 0,
        };
        // SAFETY: the number is open as long as the test uses it.
        let far = unsafe { BorrowedFd::borrow_raw(world.far.0) };
        let sent = rustix::net::send(far, &record.to_bytes(), SendFlags::empty());
        assert_eq!(sent, Ok(LENGTH));
        world.client.run(|| {
            let conn = Conn::enter(near()).expect("it is managed");
            while tcp::inq(conn.socket) == Ok(0) {
                std::thread::yield_now();
            }
            assert_eq!(conn.stream_end(), Some(end));
            assert_eq!(conn.readable_bytes(), Some(0));
        });
    }
}
