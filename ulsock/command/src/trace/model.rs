//! A run as it is told of: the calls of each thread in order and properly nested, and the connections with their history.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use rendezvous::reason::Reason;
use rendezvous::tracer::End;
use sockets::journal::Happening;
use trace::call::Class;
use trace::entry::{Called, Carrier, Connection, Entry, Moment, Phase};
use trace::read::{Recording, Thread};

pub struct Run {
    pub programs: Vec<Program>,
    /// Nanoseconds of the monotonic clock.
    pub began: u64,
    pub ended: u64,
}

/// See [`Recording`].
pub struct Program {
    pub pid: u32,
    /// Without its folder.
    pub name: String,
    pub began: u64,
    pub attached: bool,
    pub dropped: u64,
    pub full_at: u64,
    pub broken: u64,
    pub threads: Vec<Calls>,
    pub connections: BTreeMap<Connection, History>,
}

/// What a thread did.
pub struct Calls {
    pub pid: u32,
    pub tid: u32,
    pub name: String,
    /// In the order of their starts; each lies within the one before it, or behind it.
    pub slices: Vec<Slice>,
}

pub struct Slice {
    pub start: u64,
    pub end: u64,
    /// How many others it lies within.
    pub depth: usize,
    pub what: What,
}

pub enum What {
    Call(Called),
    Phase(Phase),
    /// The program, or our look at it, ended before the call did.
    UnderWay(Called),
}

/// A connection.
#[derive(Default)]
pub struct History {
    pub local: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
    pub first: u64,
    pub last: u64,
    pub moments: Vec<(u64, Happening, Reason, u64)>,
    /// By carrier.
    pub sent: [u64; 4],
    pub received: [u64; 4],
    pub calls: [u64; 4],
    /// In calls on it.
    pub time: u64,
    /// Why it was on the kernel at last.
    pub reason: Option<Reason>,
}

impl Run {
    /// `ended`: when the program was seen to have ended; `lives`: whether a process went on.
    pub fn of(recordings: Vec<Recording>, ended: u64, lives: impl Fn(u32) -> bool) -> Run {
        let began = recordings.iter().map(|it| it.began).min();
        let began = began.unwrap_or(ended);
        let mut run = Run {
            programs: Vec::new(),
            began,
            ended: ended.max(began),
        };
        for recording in recordings {
            run.programs.push(Program::of(recording, run.ended, &lives));
        }
        run
    }

    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }
}

impl Program {
    fn of(recording: Recording, ended: u64, lives: &impl Fn(u32) -> bool) -> Program {
        let last = recording.threads.iter().flat_map(|it| &it.entries);
        let last = last.filter_map(end_of).max().unwrap_or(recording.began);
        let mut program = Program {
            pid: recording.pid,
            name: short(&recording.program),
            began: recording.began,
            attached: recording.attached,
            dropped: recording.dropped,
            full_at: recording.full_at,
            broken: recording.broken,
            threads: Vec::new(),
            connections: BTreeMap::new(),
        };
        for thread in recording.threads {
            for entry in &thread.entries {
                program.note(entry);
            }
            let end = if lives(thread.pid) { ended } else { last };
            program.threads.push(calls(thread, end));
        }
        for history in program.connections.values_mut() {
            history.moments.sort_by_key(|it| it.0);
            history.reason = history.final_reason();
        }
        program
    }

    fn note(&mut self, entry: &Entry) {
        match entry {
            Entry::Called(called) => {
                if let Some(connection) = called.connection {
                    self.history(connection, called.start).call(called);
                }
            }
            Entry::Happened(moment) => self.history(moment.connection, moment.time).happen(moment),
            Entry::Ends {
                connection,
                local,
                peer,
            } => {
                let history = self.connections.entry(*connection).or_default();
                history.local = address(local).or(history.local);
                history.peer = address(peer).or(history.peer);
            }
            Entry::Phase { .. } => {}
        }
    }

    fn history(&mut self, connection: Connection, time: u64) -> &mut History {
        let history = self.connections.entry(connection).or_default();
        if history.first == 0 || time < history.first {
            history.first = time;
        }
        history.last = history.last.max(time);
        history
    }
}

impl History {
    fn call(&mut self, called: &Called) {
        let class = called.call.class();
        let carrier = called.carrier as usize;
        self.last = self.last.max(called.end);
        self.time = self
            .time
            .saturating_add(called.end.saturating_sub(called.start));
        if called.carrier == Carrier::Kernel && class != Class::Close {
            self.reason = Some(Reason::from_number(called.reason.into()));
        }
        let bytes = match class {
            _ if class.sends() => &mut self.sent,
            _ if class.receives() => &mut self.received,
            _ => return,
        };
        bytes[carrier] = bytes[carrier].saturating_add(called.result.max(0) as u64);
        self.calls[carrier] += 1;
    }

    fn happen(&mut self, moment: &Moment) {
        if let Some(happening) = Happening::from_number(moment.happening) {
            let reason = Reason::from_number(moment.reason);
            let moment = (moment.time, happening, reason, moment.offset);
            self.moments.push(moment);
        }
    }

    /// That of its end, if it is one.
    fn final_reason(&self) -> Option<Reason> {
        let closed = self.moments.iter().rev();
        let mut closed = closed.filter(|it| it.1 == Happening::Closed);
        let last = closed.next().map(|it| it.2).or(self.reason);
        last.filter(|reason| !reason.name().is_empty())
    }

    pub fn used(&self, carrier: Carrier) -> bool {
        self.calls[carrier as usize] > 0
    }

    pub fn name(&self) -> String {
        let [local, peer] = [self.local, self.peer].map(crate::amount::address);
        format!("{local} to {peer}")
    }
}

fn address(end: &End) -> Option<SocketAddr> {
    let port = u16::try_from(end.port).ok().filter(|port| *port != 0)?;
    let bits = u128::from(end.ip[0]) << 64 | u128::from(end.ip[1]);
    let ip: IpAddr = Ipv6Addr::from(bits).to_canonical();
    Some(SocketAddr::new(ip, port))
}

fn short(program: &str) -> String {
    let name = program.rsplit('/').next().unwrap_or_default();
    match name {
        "" => "?".to_owned(),
        name => name.to_owned(),
    }
}

fn end_of(entry: &Entry) -> Option<u64> {
    match entry {
        Entry::Called(called) => Some(called.end),
        Entry::Phase { end, .. } => Some(*end),
        Entry::Happened(moment) => Some(moment.time),
        Entry::Ends { .. } => None,
    }
}

fn calls(thread: Thread, ended: u64) -> Calls {
    let mut slices: Vec<Slice> = thread.entries.into_iter().filter_map(slice).collect();
    if let Some(under_way) = thread.under_way {
        let start = under_way.since;
        slices.push(Slice {
            start,
            end: ended.max(start),
            depth: 0,
            what: What::UnderWay(Called {
                call: under_way.call,
                fd: under_way.fd,
                start,
                end: ended.max(start),
                result: 0,
                errno: 0,
                carrier: Carrier::Unknown,
                reason: 0,
                connection: None,
                awake: 0,
                in_vain: 0,
                asleep: 0,
                woke: 0,
            }),
        });
    }
    nest(&mut slices);
    Calls {
        pid: thread.pid,
        tid: thread.tid,
        name: thread.name,
        slices,
    }
}

fn slice(entry: Entry) -> Option<Slice> {
    let (start, end, what) = match entry {
        Entry::Called(called) => (called.start, called.end, What::Call(called)),
        Entry::Phase { phase, start, end } => (start, end, What::Phase(phase)),
        Entry::Happened(_) | Entry::Ends { .. } => return None,
    };
    Some(Slice {
        start,
        end,
        depth: 0,
        what,
    })
}

/// In order, and cut where what somebody has scribbled overlaps.
fn nest(slices: &mut [Slice]) {
    // Of two with the same times the call is the outer one.
    let is_phase = |slice: &Slice| matches!(slice.what, What::Phase(_));
    slices.sort_by_key(|it| (it.start, std::cmp::Reverse(it.end), is_phase(it)));
    let mut open: Vec<u64> = Vec::new();
    for slice in slices {
        while open.last().is_some_and(|end| *end <= slice.start) {
            open.pop();
        }
        if let Some(end) = open.last() {
            slice.end = slice.end.min(*end);
        }
        slice.depth = open.len();
        if slice.end > slice.start {
            open.push(slice.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(start: u64, end: u64) -> Slice {
        Slice {
            start,
            end,
            depth: 0,
            what: What::Phase(Phase::Awake),
        }
    }

    #[test]
    fn slices_nest_whatever_was_written() {
        let mut slices =
            [(5, 9), (0, 7), (7, 9), (1, 3), (3, 3), (2, 8)].map(|it| phase(it.0, it.1));
        nest(&mut slices);
        let seen: Vec<_> = slices
            .iter()
            .map(|it| (it.start, it.end, it.depth))
            .collect();
        let expected = [
            (0, 7, 0),
            (1, 3, 1),
            (2, 3, 2),
            (3, 3, 1),
            (5, 7, 1),
            (7, 9, 0),
        ];
        assert_eq!(seen, expected);
    }
}
