//! What the run comes to: where the time of its threads went, and what went by which carrier.

use std::collections::BTreeMap;

use rendezvous::reason::Reason;
use trace::call::{Call, Class};
use trace::entry::{Called, Carrier, Connection, Phase};

use super::model::{Calls, Run, What};

/// Nanoseconds of all threads together.
#[derive(Default)]
pub struct Times {
    pub all: u64,
    /// Not in calls that are recorded.
    pub program: u64,
    pub asleep: u64,
    pub awake: u64,
    pub in_vain: u64,
    /// In calls that the kernel did, at work or waiting.
    pub kernel: u64,
    /// In calls that ulsock did, moving bytes.
    pub ulsock: u64,
}

#[derive(Clone, Copy, Default)]
pub struct OfCall {
    pub count: u64,
    pub time: u64,
    pub longest: u64,
    pub failed: u64,
    /// With EAGAIN: nothing was there.
    pub nothing: u64,
}

#[derive(Clone, Copy, Default)]
pub struct OfCarrier {
    pub connections: u64,
    pub sent: u64,
    pub received: u64,
    pub calls: u64,
}

#[derive(Clone, Copy, Default)]
pub struct OfReason {
    pub connections: u64,
    pub calls: u64,
    pub time: u64,
}

#[derive(Default)]
pub struct Figures {
    pub threads: u64,
    pub connections: u64,
    pub times: Times,
    pub calls: BTreeMap<Call, OfCall>,
    /// As `trace::entry::Carrier` numbers them.
    pub carriers: [OfCarrier; 4],
    /// Connections that were on the kernel at last, by the name of the reason.
    pub reasons: BTreeMap<&'static str, OfReason>,
    pub sends: u64,
    /// Directly behind another one, of the same thread on the same connection.
    pub sends_in_a_row: u64,
    pub small_sends: u64,
    pub sleeps: u64,
    pub short_sleeps: u64,
    pub dropped: u64,
}

/// A send of at most so many bytes is a small one.
pub const SMALL: i64 = 64;
/// A sleep that costs about as much as it lasts, in nanoseconds.
pub const SHORT_SLEEP: u64 = 50_000;

impl Figures {
    pub fn of(run: &Run) -> Figures {
        let mut figures = Figures::default();
        for program in &run.programs {
            figures.dropped = figures.dropped.saturating_add(program.dropped);
            for thread in &program.threads {
                figures.threads += 1;
                let is_first = thread.pid == program.pid && thread.tid == program.pid;
                figures.thread(thread, is_first.then_some(program.began));
            }
            for history in program.connections.values() {
                figures.connections += 1;
                for (at, of) in figures.carriers.iter_mut().enumerate() {
                    of.connections += u64::from(history.calls[at] > 0);
                    of.sent = of.sent.saturating_add(history.sent[at]);
                    of.received = of.received.saturating_add(history.received[at]);
                    of.calls += history.calls[at];
                }
                if let Some(reason) = history.reason.filter(|_| history.used(Carrier::Kernel)) {
                    figures.reason(reason, history.calls[0], history.time);
                }
            }
        }
        figures
    }

    fn reason(&mut self, reason: Reason, calls: u64, time: u64) {
        let of = self.reasons.entry(reason.name()).or_default();
        of.connections += 1;
        of.calls += calls;
        of.time = of.time.saturating_add(time);
    }

    /// A thread is there from its first call to its last one, and that of the program's start from there.
    fn thread(&mut self, thread: &Calls, began: Option<u64>) {
        let first = thread.slices.iter().map(|it| it.start).min();
        let last = thread.slices.iter().map(|it| it.end).max();
        let (Some(first), Some(last)) = (first, last) else {
            return;
        };
        let all = last.saturating_sub(began.unwrap_or(first).min(first));
        let mut in_calls = 0;
        let mut sent_before: Option<Connection> = None;
        for slice in &thread.slices {
            let length = slice.end - slice.start;
            match &slice.what {
                What::Phase(Phase::Asleep) => {
                    self.sleeps += 1;
                    self.short_sleeps += u64::from(length < SHORT_SLEEP);
                }
                What::Phase(_) => {}
                What::Call(called) | What::UnderWay(called) => {
                    let is_outer = slice.depth == 0;
                    if is_outer {
                        in_calls += length;
                        self.spent(called, length);
                    }
                    self.count(called, if is_outer { length } else { 0 });
                    self.sent(called, &mut sent_before);
                }
            }
        }
        self.times.all += all;
        self.times.program += all.saturating_sub(in_calls);
    }

    fn spent(&mut self, called: &Called, length: u64) {
        let waited = called.awake + called.in_vain + called.asleep;
        let times = &mut self.times;
        times.awake += called.awake;
        times.in_vain += called.in_vain;
        times.asleep += called.asleep;
        let rest = length.saturating_sub(waited);
        let by_ulsock = match called.call.class() {
            Class::Wait => waited > 0,
            _ => matches!(called.carrier, Carrier::Shm | Carrier::Nic),
        };
        match by_ulsock {
            true => times.ulsock += rest,
            false => times.kernel += rest,
        }
    }

    fn count(&mut self, called: &Called, length: u64) {
        let of = self.calls.entry(called.call).or_default();
        of.count += 1;
        of.time += length;
        of.longest = of.longest.max(length);
        of.failed += u64::from(called.errno != 0);
        of.nothing += u64::from(i32::from(called.errno) == libc::EAGAIN);
    }

    fn sent(&mut self, called: &Called, before: &mut Option<Connection>) {
        if !called.call.class().sends() || called.connection.is_none() || called.result <= 0 {
            *before = None;
            return;
        }
        self.sends += 1;
        self.small_sends += u64::from(called.result <= SMALL);
        self.sends_in_a_row += u64::from(*before == called.connection);
        *before = called.connection;
    }

    pub fn total(&self, class: impl Fn(Class) -> bool) -> OfCall {
        let mut total = OfCall::default();
        for (call, of) in &self.calls {
            if class(call.class()) {
                total.count += of.count;
                total.time += of.time;
                total.longest = total.longest.max(of.longest);
                total.failed += of.failed;
                total.nothing += of.nothing;
            }
        }
        total
    }
}
