//! Accounts: which conversation ended as it should, which did not, and which does not move.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::board::{BROKEN, Board, DONE, Slot, TALKING, UNBORN, WRONG, now};
use crate::procfs;

const SECOND: u64 = 1_000_000_000;
/// Who has lost its peer hears of it within this time.
const NOTICE: u64 = 2 * SECOND;
/// Nothing moves for so long, though every fault is over sooner.
const HANG: u64 = 15 * SECOND;
/// Bytes that a killed process may have sent without having written it down.
const IN_HAND: u64 = 64 * 1024;

/// Who was killed and who was stopped, and until when.
#[derive(Default)]
pub struct Fates {
    killed: HashMap<u32, u64>,
    stopped: HashMap<u32, u64>,
    servers: HashMap<u64, Vec<u64>>,
}

impl Fates {
    /// These processes of member `number` are about to be killed.
    pub fn kill(&mut self, number: usize, pids: &[u32]) {
        let at = now();
        self.killed.extend(pids.iter().map(|pid| (*pid, at)));
        self.servers.entry(number as u64).or_default().push(at);
    }

    /// This process stands still until then.
    pub fn stop(&mut self, pid: u32, until: u64) {
        self.stopped.insert(pid, until);
    }

    /// Whether it was killed since then: numbers of processes come back.
    pub fn was_killed(&self, pid: u32, since: u64) -> bool {
        self.killed(pid, since).is_some()
    }

    /// When it was killed, if after `since`.
    fn killed(&self, pid: u32, since: u64) -> Option<u64> {
        self.killed.get(&pid).copied().filter(|at| *at >= since)
    }

    /// Whether server `number`, or a process of it, was killed in this time.
    fn server(&self, number: u64, since: u64, until: u64) -> bool {
        let kills = self.servers.get(&number).into_iter().flatten();
        kills.into_iter().any(|at| (since..=until).contains(at))
    }
}

/// How an end ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Unborn,
    Talking,
    Done,
    Broken,
    Dead(u64),
    Wrong,
    Vanished,
}

/// The accounts so far.
#[derive(Default)]
pub struct Judge {
    /// All before this one are judged.
    pub low: u64,
    /// How many ended with all bytes at both ends.
    pub exact: u64,
    /// How many ended by a death.
    pub cut: u64,
    /// Bytes that were received and checked.
    pub bytes: u64,
    /// The longest time, in nanoseconds, until an end heard of the other's death.
    pub noticed: u64,
    /// By which time the master itself was late, in nanoseconds.
    pub lag: u64,
    over: HashMap<u64, ()>,
    seen: HashMap<u64, (u64, u64)>,
}

fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Acquire)
}

/// The process may end between two looks: what it wrote counts if it was gone before.
fn end(slot: &Slot, fates: &Fates) -> End {
    let pid = load(&slot.pid) as u32;
    let gone = pid != 0 && procfs::is_gone(pid);
    let state = load(&slot.state);
    match state {
        UNBORN => End::Unborn,
        TALKING if !gone || load(&slot.pid) as u32 != pid => End::Talking,
        TALKING => match fates.killed(pid, load(&slot.began)) {
            Some(at) => End::Dead(at),
            None => End::Vanished,
        },
        DONE => End::Done,
        BROKEN => End::Broken,
        WRONG => End::Wrong,
        other => panic!("state {other} on the board"),
    }
}

impl Judge {
    /// Looks at all conversations that are not judged; an error names one that is not as it should be.
    pub fn look(&mut self, board: Board, fates: &Fates) -> Result<(), (u64, String)> {
        let next = board.begun();
        for id in self.low..next {
            if self.over.contains_key(&id) {
                continue;
            }
            if self
                .one(id, board.pair(id), fates)
                .map_err(|why| (id, why))?
            {
                self.over.insert(id, ());
                self.seen.remove(&id);
                let received = board.pair(id).iter().map(|slot| load(&slot.received));
                self.bytes += received.sum::<u64>();
            }
        }
        while self.over.remove(&self.low).is_some() {
            self.low += 1;
        }
        Ok(())
    }

    /// How many conversations are not judged yet.
    pub fn open(&self, board: Board) -> u64 {
        board.begun() - self.low - self.over.len() as u64
    }

    /// Whether the conversation is over, and as it should be.
    fn one(&mut self, id: u64, pair: &[Slot; 2], fates: &Fates) -> Result<bool, String> {
        let ends = [end(&pair[0], fates), end(&pair[1], fates)];
        if ends.contains(&End::Wrong) {
            return Err("an end is wrong".to_owned());
        }
        if ends.contains(&End::Vanished) {
            return Err("a process is gone, and nobody killed it".to_owned());
        }
        let [caller, called] = ends;
        let over = match (caller, called) {
            (End::Unborn, _) => self.never_began(id),
            (End::Broken, End::Unborn) => return self.before_a_word(pair, fates),
            (End::Done, End::Unborn) if load(&pair[0].real) == 1 => {
                self.exact += 1;
                true
            }
            (End::Done, End::Unborn) => return Err("answered by nobody".to_owned()),
            // A server may still find the call of a dead client.
            (End::Dead(at), End::Unborn) => now() > at + NOTICE,
            (End::Done, End::Done) => return self.both_done(pair),
            (End::Talking, _) | (_, End::Talking) => false,
            (End::Broken, End::Broken) => return Err("both ends broke".to_owned()),
            (End::Broken, End::Dead(at)) => return self.survived(&pair[0], &pair[1], at),
            (End::Dead(at), End::Broken) => return self.survived(&pair[1], &pair[0], at),
            (End::Broken, _) | (_, End::Broken) => {
                return Err("one end broke, and the other did not die".to_owned());
            }
            _ => {
                self.cut += 1;
                true
            }
        };
        if !over {
            self.moves(id, pair, ends, fates)?;
        }
        Ok(over)
    }

    /// The process was killed before it wrote that it calls.
    fn never_began(&mut self, id: u64) -> bool {
        let (_, since) = *self.seen.entry(id).or_insert((0, now()));
        now() > since + NOTICE
    }

    fn before_a_word(&mut self, pair: &[Slot; 2], fates: &Fates) -> Result<bool, String> {
        let caller = &pair[0];
        let (began, ended) = (load(&caller.began), load(&caller.ended));
        // The call may have come before the conversation got its number.
        let since = began.saturating_sub(SECOND);
        if !fates.server(load(&caller.target), since, ended) {
            return Err("broke, and nobody killed the server".to_owned());
        }
        self.cut += 1;
        Ok(true)
    }

    fn both_done(&mut self, pair: &[Slot; 2]) -> Result<bool, String> {
        for [from, to] in [[&pair[0], &pair[1]], [&pair[1], &pair[0]]] {
            let plan = load(&from.plan);
            if load(&from.sent) != plan || load(&to.received) != plan {
                return Err("done, but the counts differ".to_owned());
            }
        }
        self.exact += 1;
        Ok(true)
    }

    fn survived(&mut self, survivor: &Slot, dead: &Slot, killed: u64) -> Result<bool, String> {
        if load(&survivor.received) > load(&dead.sent) + IN_HAND {
            return Err("more was received than was sent".to_owned());
        }
        let ended = load(&survivor.ended);
        if ended < killed {
            return Err("broke before the other end died".to_owned());
        }
        self.noticed = self.noticed.max(ended - killed);
        self.cut += 1;
        Ok(true)
    }

    /// Who lives must move; who is alone must notice.
    fn moves(
        &mut self,
        id: u64,
        pair: &[Slot; 2],
        ends: [End; 2],
        fates: &Fates,
    ) -> Result<(), String> {
        let counts = |slot: &Slot| load(&slot.sent) + load(&slot.received);
        let sum = counts(&pair[0]) + counts(&pair[1]);
        let (before, since) = *self.seen.entry(id).or_insert((sum, now()));
        if before != sum {
            self.seen.insert(id, (sum, now()));
            return Ok(());
        }
        let resumed = |slot: &Slot| fates.stopped.get(&(load(&slot.pid) as u32)).copied();
        let resumed = pair.iter().filter_map(resumed).max().unwrap_or(0);
        let death = ends.iter().find_map(|end| match end {
            End::Dead(at) => Some((*at, NOTICE, "does not notice that the other end is dead")),
            _ => None,
        });
        let (at, limit, what) = death.unwrap_or((0, HANG, "does not move"));
        let since = since.max(at).max(resumed);
        if now() > since + limit + self.lag {
            return Err(format!("{what} for {} ms", (now() - since) / 1_000_000));
        }
        Ok(())
    }
}
