//! Time that has run out: probes, questions, silence.

use super::conn::{Owed, Queued};
use super::event::Why;
use super::ledger::Content;
use super::streams::Streams;
use super::transmit::Piece;
use super::window::Window;
use super::{Id, Link};
use crate::time::{Instant, earlier};
use crate::wire::{Header, Kind};
use core::time::Duration;

/// `[K5]` The longest pause between two questions.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl<W: Window + Clone> Link<W> {
    /// Does what has become due.
    #[inline]
    pub(super) fn on_time(&mut self, now: Instant, streams: &mut impl Streams) {
        // [R8] With others to go to, a path is looked at each time.
        if let [path] = self.paths.as_slice()
            && earlier(path.timer(), self.timer()).is_none_or(|at| at > now)
        {
            return;
        }
        self.run_out(now, streams);
    }

    fn run_out(&mut self, now: Instant, streams: &mut impl Streams) {
        for number in 0..self.paths.len() {
            if self.paths[number].on_time(now, &mut self.fates) {
                self.counters.probes += 1;
                // [H3]
                self.confirm_owed = self.confirm.is_some();
                self.ask_other_paths(number);
            }
            if self.paths.len() > 1 {
                self.leave_dead_path(now, number);
            }
            if !self.fates.is_empty() {
                self.settle(now, number, streams);
            }
        }
        if self.shake.is_in_vain(now) || self.silence_ends().is_some_and(|at| at <= now) {
            self.die(Why::Silence);
            self.renew();
            return;
        }
        self.ask_for_credit(now);
    }

    /// `[R7]` When all paths that wait for an answer will have waited too long.
    #[inline]
    pub(super) fn silence_ends(&self) -> Option<Instant> {
        let since = self.paths.iter().filter_map(|path| path.silent_since());
        Some(since.max()? + self.config.patience)
    }

    /// `[R8]` This one does not answer. Do the others?
    fn ask_other_paths(&mut self, number: usize) {
        if self.paths[number].probes() < 2 {
            return;
        }
        for (other, path) in self.paths.iter_mut().enumerate() {
            let is_idle = path.ledger().is_settled() || path.is_left();
            path.ping_owed |= other != number && is_idle;
        }
    }

    /// `[R8]` Half of the patience without an answer, while another path has had one.
    fn leave_dead_path(&mut self, now: Instant, number: usize) {
        let busy = |path: &super::Path<W>| !path.ledger().is_settled() && !path.is_left();
        if self.paths[number].is_left() {
            let worthwhile = self.paths.iter().any(busy);
            self.paths[number].ping_owed |= worthwhile && self.paths[number].is_worth_a_try(now);
            return;
        }
        let since = self.paths[number].silent_since();
        let Some(since) = since.filter(|&since| now - since >= self.config.patience / 2) else {
            return;
        };
        let lives = |path: &super::Path<W>| !path.is_left() && path.last_answer() > Some(since);
        let Some(other) = self.paths.iter().position(lives) else {
            return;
        };
        self.paths[number].leave(now, &mut self.fates);
        for conn in self.table.iter_mut() {
            if usize::from(conn.path) == number {
                conn.path = other as u8;
                conn.queued = Queued::default();
            }
        }
        for id in self.table.ids() {
            self.note(now, id);
        }
    }

    /// `[R8]` The peer uses another path for a connection than we do, and ours does not answer. But what goes on a path
    /// that was left is never asked for again.
    #[inline]
    pub(super) fn follow(&mut self, now: Instant, id: Id, path: u8) {
        let Some(conn) = self.table.get_mut(id).filter(|conn| conn.path != path) else {
            return;
        };
        let old = usize::from(conn.path);
        let is_silent = |path: &super::Path<W>| path.probes() > 1;
        let theirs = self.paths.get(usize::from(path));
        if self.paths.get(old).is_some_and(is_silent) && theirs.is_some_and(|path| !path.is_left())
        {
            conn.path = path;
            let queued = core::mem::take(&mut conn.queued);
            self.leave_behind(old, queued);
            self.note(now, id);
        }
    }

    /// `[R4]`
    pub(super) fn probe(
        &mut self,
        number: usize,
        now: Instant,
        streams: &mut impl Streams,
        out: &mut [u8],
    ) -> Option<usize> {
        let path = &mut self.paths[number];
        path.probes_owed = path.probes_owed.checked_sub(1)?;
        let oldest = path.ledger().oldest().map(|sent| sent.content);
        if let Some((id, bytes)) = self.next_bytes(number) {
            let ask = true;
            let length = self.send_data(number, now, Piece { id, bytes, ask }, streams, out);
            self.note(now, id);
            return length;
        }
        match oldest {
            Some(Content::Data { id, offset, length }) if self.still_needs(id, offset) => {
                let bytes = offset..offset + u64::from(length);
                let ask = true;
                self.send_data(number, now, Piece { id, bytes, ask }, streams, out)
            }
            Some(Content::Owed { id, what })
                if self.table.get(id).is_some_and(|conn| conn.still_owes(what)) =>
            {
                self.pay_one(number, now, id, what, true, out)
            }
            _ => self.say_ping(number, now, out),
        }
    }

    /// `[R8]`
    pub(super) fn ask_path(
        &mut self,
        number: usize,
        now: Instant,
        out: &mut [u8],
    ) -> Option<usize> {
        let path = &mut self.paths[number];
        core::mem::take(&mut path.ping_owed).then_some(())?;
        path.forget_tries();
        self.say_ping(number, now, out)
    }

    fn say_ping(&mut self, number: usize, now: Instant, out: &mut [u8]) -> Option<usize> {
        let tag = self.shake.peer()?.tag;
        let header = Header {
            tag,
            ask: true,
            ..Header::of(Kind::Ping)
        };
        let content = Content::Ping { tried: None };
        self.send(number, now, header, Some(content), out, |_, _| Some(0))
    }

    fn still_needs(&self, id: Id, offset: u64) -> bool {
        self.table
            .get(id)
            .is_some_and(|conn| conn.can_send() && offset >= conn.send.done())
    }

    /// The bytes that would go next if there was room.
    fn next_bytes(&self, number: usize) -> Option<(Id, core::ops::Range<u64>)> {
        let schedule = &self.paths[number].schedule;
        let lost = schedule.first_lost().and_then(|id| {
            let conn = self.served(number, id).filter(|conn| conn.can_send())?;
            Some((id, conn.send.again()?))
        });
        lost.or_else(|| {
            let id = schedule.first_data()?;
            let conn = self.served(number, id).filter(|conn| conn.can_send())?;
            let bytes = conn.send.fresh();
            (!bytes.is_empty()).then_some((id, bytes))
        })
    }

    /// `[K5]`
    fn ask_for_credit(&mut self, now: Instant) {
        while let Some(&(at, id)) = self.questions.first() {
            if at > now {
                return;
            }
            self.questions.pop_first();
            let Some(conn) = self.table.get_mut(id) else {
                continue;
            };
            conn.question.at = None;
            if !conn.is_blocked() {
                continue;
            }
            conn.debts.add(Owed::Question);
            conn.question.asked = (conn.question.asked + 1).min(16);
            let pause = self
                .paths
                .get(usize::from(conn.path))
                .map_or(LONGEST_PAUSE, |path| path.probe_time());
            let pause = (pause * (1 << conn.question.asked)).min(LONGEST_PAUSE);
            conn.question.at = Some(now + pause);
            self.questions.insert((now + pause, id));
            self.note(now, id);
        }
    }
}
