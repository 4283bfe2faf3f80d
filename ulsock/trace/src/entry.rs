//! An entry of a recording, and the eight words that it is in the file.

use rendezvous::tracer::End;

use crate::call::Call;
use crate::layout::WORDS;

/// Who carried a call's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Carrier {
    Kernel = 0,
    Shm = 1,
    Nic = 2,
    /// The call was about no connection, or ulsock was off.
    Unknown = 3,
}

impl Carrier {
    pub fn name(self) -> &'static str {
        match self {
            Carrier::Kernel => "kernel",
            Carrier::Shm => "shm",
            Carrier::Nic => "nic",
            Carrier::Unknown => "unknown",
        }
    }

    pub fn from_number(number: u8) -> Carrier {
        match number {
            0 => Carrier::Kernel,
            1 => Carrier::Shm,
            2 => Carrier::Nic,
            _ => Carrier::Unknown,
        }
    }
}

/// How a part of a call was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Awake, and what it waited for came.
    Awake = 1,
    /// Awake, and nothing came.
    InVain = 2,
    Asleep = 3,
    /// It takes no time: somebody else was woken.
    Woke = 4,
}

impl Phase {
    fn from_number(number: u8) -> Option<Phase> {
        Some(match number {
            1 => Phase::Awake,
            2 => Phase::InVain,
            3 => Phase::Asleep,
            4 => Phase::Woke,
            _ => return None,
        })
    }
}

/// Names a connection within its program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection {
    /// The process that had the first connection of those that share records: it, and what it forked from then on.
    pub family: u32,
    pub record: u32,
    pub generation: u32,
}

/// Times are nanoseconds of the monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    pub call: Call,
    pub fd: i32,
    pub start: u64,
    pub end: u64,
    /// What it returned, or for messages how many bytes they had.
    pub result: i64,
    /// 0 if it succeeded.
    pub errno: u16,
    pub carrier: Carrier,
    /// Why it is on the kernel: a number of `rendezvous::reason`.
    pub reason: u8,
    pub connection: Option<Connection>,
    pub awake: u64,
    pub in_vain: u64,
    pub asleep: u64,
    /// How many were woken.
    pub woke: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    pub time: u64,
    pub connection: Connection,
    /// A number of `sockets::journal::Happening`.
    pub happening: u32,
    pub reason: u32,
    pub offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Called(Called),
    Phase {
        phase: Phase,
        start: u64,
        end: u64,
    },
    Happened(Moment),
    /// Where a connection leads.
    Ends {
        connection: Connection,
        local: End,
        peer: End,
    },
}

const CALLED: u8 = 1;
const PHASE: u8 = 2;
const HAPPENED: u8 = 3;
const ENDS: u8 = 4;

/// What is no connection's.
const NO_RECORD: u32 = u32::MAX;

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Longer waits are cut to some four seconds where there is little room.
fn short(nanos: u64) -> u32 {
    u32::try_from(nanos).unwrap_or(u32::MAX)
}

impl Entry {
    /// The first word is never 0.
    #[inline]
    pub fn words(&self) -> [u64; WORDS] {
        match self {
            Entry::Called(called) => called.words(),
            Entry::Phase { phase, start, end } => {
                let first = u64::from_le_bytes([PHASE, *phase as u8, 0, 0, 0, 0, 0, 0]);
                [first, *start, *end, 0, 0, 0, 0, 0]
            }
            Entry::Happened(moment) => [
                pair(HAPPENED.into(), moment.happening),
                moment.time,
                moment.offset,
                pair(moment.connection.record, moment.connection.generation),
                pair(moment.reason, moment.connection.family),
                0,
                0,
                0,
            ],
            Entry::Ends {
                connection,
                local,
                peer,
            } => [
                u64::from(ENDS),
                pair(connection.record, connection.generation),
                local.ip[0],
                local.ip[1],
                peer.ip[0],
                peer.ip[1],
                local.port,
                pair(peer.port as u32, connection.family),
            ],
        }
    }

    /// `None`: nothing that we write.
    pub fn from_words(words: &[u64; WORDS]) -> Option<Entry> {
        let first = words[0].to_le_bytes();
        Some(match first[0] {
            CALLED => Entry::Called(Called::from_words(words)?),
            PHASE => Entry::Phase {
                phase: Phase::from_number(first[1])?,
                start: words[1],
                end: Some(words[2]).filter(|end| *end >= words[1])?,
            },
            HAPPENED => Entry::Happened(Moment {
                time: words[1],
                connection: connection(words[3], halves(words[4]).1),
                happening: halves(words[0]).1,
                reason: halves(words[4]).0,
                offset: words[2],
            }),
            ENDS => Entry::Ends {
                connection: connection(words[1], halves(words[7]).1),
                local: end([words[2], words[3]], words[6])?,
                peer: end([words[4], words[5]], halves(words[7]).0.into())?,
            },
            _ => return None,
        })
    }
}

fn connection(word: u64, family: u32) -> Connection {
    let (record, generation) = halves(word);
    Connection {
        family,
        record,
        generation,
    }
}

fn end(ip: [u64; 2], port: u64) -> Option<End> {
    (port <= u16::MAX.into()).then_some(End { ip, port })
}

impl Called {
    #[inline]
    fn words(&self) -> [u64; WORDS] {
        let fd = self.fd.to_le_bytes();
        let what = [CALLED, self.call as u8, self.carrier as u8, self.reason];
        let first = pair(u32::from_le_bytes(what), u32::from_le_bytes(fd));
        let connection = self.connection.unwrap_or(Connection {
            family: 0,
            record: NO_RECORD,
            generation: 0,
        });
        let length = self.end.saturating_sub(self.start);
        // 48 bits of nanoseconds are three days.
        let length = length.min((1 << 48) - 1) << 16 | u64::from(self.errno);
        [
            first,
            self.start,
            length,
            self.result as u64,
            pair(connection.record, connection.generation),
            pair(short(self.awake), short(self.in_vain)),
            self.asleep,
            pair(self.woke.into(), connection.family),
        ]
    }

    fn from_words(words: &[u64; WORDS]) -> Option<Called> {
        let (what, fd) = halves(words[0]);
        let [_, call, carrier, reason] = what.to_le_bytes();
        let (woke, family) = halves(words[7]);
        let connection = connection(words[4], family);
        let (awake, in_vain) = halves(words[5]);
        let length = words[2] >> 16;
        let (awake, in_vain, asleep) = (u64::from(awake), u64::from(in_vain), words[6]);
        let within = awake.checked_add(in_vain)?.checked_add(asleep)? <= length;
        within.then_some(())?;
        Some(Called {
            call: Call::from_number(call)?,
            fd: fd as i32,
            start: words[1],
            end: words[1].checked_add(length)?,
            result: words[3] as i64,
            errno: words[2] as u16,
            carrier: Carrier::from_number(carrier),
            reason,
            connection: (connection.record != NO_RECORD).then_some(connection),
            awake,
            in_vain,
            asleep,
            woke: woke.min(u8::MAX.into()) as u8,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called() -> Called {
        Called {
            call: Call::Sendmsg,
            fd: 7,
            start: 1 << 60,
            end: (1 << 60) + 1_000_000,
            result: 12,
            errno: 11,
            carrier: Carrier::Shm,
            reason: 3,
            connection: Some(Connection {
                family: 4,
                record: 5,
                generation: 6,
            }),
            awake: 1,
            in_vain: 2,
            asleep: 999_997,
            woke: 3,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let connection = Connection {
            family: u32::MAX,
            record: 1,
            generation: u32::MAX,
        };
        let end = End {
            ip: [1, 2],
            port: 65_535,
        };
        let nameless = Called {
            connection: None,
            fd: -1,
            result: -1,
            ..called()
        };
        for entry in [
            Entry::Called(called()),
            Entry::Called(nameless),
            Entry::Phase {
                phase: Phase::InVain,
                start: 3,
                end: 3,
            },
            Entry::Happened(Moment {
                time: 8,
                connection,
                happening: u32::MAX,
                reason: 2,
                offset: u64::MAX,
            }),
            Entry::Ends {
                connection,
                local: end,
                peer: End::default(),
            },
        ] {
            let words = entry.words();
            assert_ne!(words[0] as u8, 0, "{entry:?}");
            assert_eq!(Entry::from_words(&words), Some(entry));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |at: usize, word: u64| {
            let mut words = Entry::Called(called()).words();
            words[at] = word;
            assert_eq!(Entry::from_words(&words), None, "{at}: {word}");
        };
        refused(0, 0);
        refused(0, u64::MAX);
        refused(1, u64::MAX);
        // Longer asleep than the call lasted.
        refused(6, 999_998);
        refused(6, u64::MAX);
        let backwards = [
            u64::from_le_bytes([PHASE, 1, 0, 0, 0, 0, 0, 0]),
            2,
            1,
            0,
            0,
            0,
            0,
            0,
        ];
        assert_eq!(Entry::from_words(&backwards), None);
    }
}
