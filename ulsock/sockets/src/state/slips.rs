//! Slips: how many hold a socket that was passed on by SCM_RIGHTS. A table per user in the run directory, one slip per
//! socket, by its cookie; [`crate::calls::passing`] writes them.
//!
//! A slip counts *shares*: the record of each family of processes that holds the socket, and the message that it
//! travels in. Who takes it out of the message goes on with the message's share. A share that nobody gives back (its
//! holder was killed, or does not know us) keeps the socket on the kernel, and so does everything else that is in
//! doubt: a slip can be *void*, and one that is missing counts as void.
//!
//! A slip is one word, cookie and count, so that each step is one compare-and-swap and nobody waits for a process that
//! was killed halfway. Beside it is the Unix socket that the message went to.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::state::control::Locked;
use crate::state::record::Role;
use os::backoff::Backoff;
use os::guarded;
use os::guarded::Guarded;
use os::proc;
use os::users::names_one_user;
use rendezvous::rundir::{RunDir, SLIPS as PREFIX};

const SLOTS: usize = 4096;
/// Slots in which a slip may lie, beginning at its cookie's hash.
const WINDOW: usize = 16;

/// Bits of a word that are the count.
const BITS: u32 = 16;
const COUNT: u64 = (1 << BITS) - 1;
/// Nobody knows how many.
const VOID: u64 = COUNT;
/// Somebody is writing down where the message goes.
const BUSY: u64 = COUNT - 1;
/// More shares than anybody has.
const MOST_SHARES: u64 = 1000;
/// Looks at a slip that is busy, before its writer is taken for dead.
const BUSY_LOOKS: usize = 64;

/// In the number of a Unix socket: the passed one is of the end that connected.
const CONNECTED: u64 = 1 << 63;

#[repr(C)]
struct SlipSlot {
    /// Cookie and count; 0: free.
    word: AtomicU64,
    /// The Unix socket that the message is to be received from; 0: none is under way.
    to: AtomicU64,
}

#[repr(C, align(64))]
struct SlipTable {
    /// Calls under way that look at messages without taking them. What they get is a copy that no slip knows of.
    peeks: AtomicU64,
    slots: [SlipSlot; SLOTS],
}

/// The slips of our user.
pub struct Slips(Guarded);

os::process_wide! {
    static SLIPS: AtomicPtr<Slips> = AtomicPtr::new(std::ptr::null_mut());
}

/// The table, opened at its first use; a forked child has its parent's. `None` also for a thread that must not touch
/// it: a slip that is not found counts as void.
pub fn open() -> Option<&'static Slips> {
    let known = || {
        // SAFETY: null, or leaked below.
        unsafe { SLIPS.load(Ordering::Acquire).as_ref() }
    };
    if known().is_none() {
        crate::state::begin::begin()?;
        let mut locked = Locked::wait()?;
        if known().is_none() {
            let slips = Slips::map(locked.control()?.dir())?;
            SLIPS.store(Box::into_raw(Box::new(slips)), Ordering::Release);
        }
    }
    known().filter(|_| guarded::may_be_touched())
}

/// What a message under way has been counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub cookie: u64,
    to: u64,
}

impl Sent {
    pub fn new(cookie: u64, role: Role, to: u64) -> Sent {
        let role = match role {
            Role::Connected => CONNECTED,
            Role::Accepted => 0,
        };
        Sent {
            cookie,
            to: to | role,
        }
    }
}

fn word(cookie: u64, count: u64) -> u64 {
    cookie << BITS | count
}

/// Can it be written down? The kernel counts cookies up from 1.
fn fits(cookie: u64) -> bool {
    cookie != 0 && cookie < 1 << (u64::BITS - BITS)
}

impl Slips {
    fn map(dir: &RunDir) -> Option<Slips> {
        let uid = rustix::process::geteuid().as_raw();
        // Strangers' files look like ours then, and their owners could truncate them.
        if !names_one_user(uid) {
            return None;
        }
        // Cookies begin anew with each start of the system.
        let name = format!("{PREFIX}.{uid}.{:016x}", proc::boot().ok()?);
        let mapping = dir.map_own(&name, std::mem::size_of::<SlipTable>())?;
        remove_older(dir, uid, &name);
        Some(Slips(mapping))
    }

    fn table(&self) -> &SlipTable {
        // SAFETY: the mapping is as long as a table and begins at a page; atomics only, valid for any content.
        unsafe { &*self.0.base().cast() }
    }

    fn window(&self, cookie: u64) -> &[SlipSlot] {
        let spread = cookie.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let start = spread as usize % (SLOTS - WINDOW + 1);
        &self.table().slots[start..start + WINDOW]
    }

    /// The slot of a slip and its count, once nobody is writing there.
    fn find(&self, cookie: u64) -> Option<(&SlipSlot, u64)> {
        let mut backoff = Backoff::default();
        for _ in 0..BUSY_LOOKS {
            let window = self.window(cookie).iter();
            let words = window.map(|slot| (slot, slot.word.load(Ordering::SeqCst)));
            let mut mine = words.filter(|(_, word)| word >> BITS == cookie);
            match mine.next() {
                Some((_, found)) if found & COUNT == BUSY => backoff.pause(),
                found => return found.map(|(slot, found)| (slot, found & COUNT)),
            }
        }
        None
    }

    /// Changes a slip from what was found; `false` if it is another by now.
    fn swap(slot: &SlipSlot, cookie: u64, from: u64, to: u64) -> bool {
        let to = if to == 0 { 0 } else { word(cookie, to) };
        slot.word
            .compare_exchange(word(cookie, from), to, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// Before a socket is passed that is only its record's: the first slip of it, with shares for the record and for
    /// the message. `false`: it cannot be followed.
    pub fn begin(&self, sent: Sent) -> bool {
        if !fits(sent.cookie) {
            return false;
        }
        if self.find(sent.cookie).is_some() {
            // Of a program that this process was before: what that one has passed on, nobody knows.
            self.void(sent.cookie);
            return false;
        }
        let window = self.window(sent.cookie);
        let words = window.iter().map(|slot| slot.word.load(Ordering::SeqCst));
        let usable = words.zip(window).filter(|(word, _)| word & COUNT != BUSY);
        // Without a free one the oldest goes: its socket stays on the kernel, if it still is there.
        let Some((old, slot)) = usable.min_by_key(|(word, _)| *word) else {
            return false;
        };
        let busy = word(sent.cookie, BUSY);
        let taken = slot
            .word
            .compare_exchange(old, busy, Ordering::SeqCst, Ordering::SeqCst);
        if taken.is_err() {
            return false;
        }
        slot.to.store(sent.to, Ordering::SeqCst);
        Slips::swap(slot, sent.cookie, BUSY, 2)
    }

    /// Before a socket is passed that has a slip already.
    pub fn add(&self, sent: Sent) -> bool {
        let Some((slot, count)) = self.find(sent.cookie) else {
            return false;
        };
        if count >= MOST_SHARES || !Slips::swap(slot, sent.cookie, count, BUSY) {
            self.void(sent.cookie);
            return false;
        }
        // One message at a time.
        let free = slot.to.load(Ordering::SeqCst) == 0;
        if free {
            slot.to.store(sent.to, Ordering::SeqCst);
        }
        Slips::swap(slot, sent.cookie, BUSY, if free { count + 1 } else { VOID }) && free
    }

    /// The message was not sent.
    pub fn take_back(&self, sent: Sent) {
        if self.claim(sent) {
            self.leave(sent.cookie);
        }
    }

    /// A socket has come out of a message that was received from the Unix socket `from`: whose share it is, and which end
    /// of its connection. `None`: it is in no slip, or not by this message.
    pub fn receive(&self, cookie: u64, from: u64) -> Option<Role> {
        let roles = [Role::Accepted, Role::Connected];
        let mut roles = roles.into_iter();
        roles.find(|role| self.claim(Sent::new(cookie, *role, from)))
    }

    /// Takes the message's place in the slip.
    fn claim(&self, sent: Sent) -> bool {
        let found = self.find(sent.cookie);
        found.is_some_and(|(slot, count)| {
            (1..=MOST_SHARES).contains(&count)
                && slot
                    .to
                    .compare_exchange(sent.to, 0, Ordering::SeqCst, Ordering::SeqCst)
                    .is_ok()
        })
    }

    /// One share less. If others change the slip all the time, it is not given back.
    pub fn leave(&self, cookie: u64) {
        let tries = (0..BUSY_LOOKS).map_while(|_| self.find(cookie));
        for (slot, count) in tries {
            if !(1..=MOST_SHARES).contains(&count) || Slips::swap(slot, cookie, count, count - 1) {
                return;
            }
        }
    }

    /// Whether there is no share but the caller's own; then the slip is gone.
    pub fn end(&self, cookie: u64) -> bool {
        // First: who has a copy by a look says so in the slip before it goes.
        let peeked = self.table().peeks.load(Ordering::SeqCst) != 0;
        let found = self.find(cookie).filter(|_| !peeked);
        found.is_some_and(|(slot, count)| count == 1 && Slips::swap(slot, cookie, 1, 0))
    }

    /// The socket stays on the kernel, in all processes.
    pub fn void(&self, cookie: u64) {
        let mut tries = (0..BUSY_LOOKS).map_while(|_| self.find(cookie));
        tries.any(|(slot, count)| Slips::swap(slot, cookie, count, VOID));
    }

    /// Before a call that looks at messages without taking them. Who is killed in it leaves the count too high: no passed
    /// socket of this user comes back then.
    pub fn peek_begins(&self) {
        self.table().peeks.fetch_add(1, Ordering::SeqCst);
    }

    /// After it, and after the slips of what came out of it are void.
    pub fn peek_ends(&self) {
        self.table().peeks.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Tables of earlier starts of the system.
fn remove_older(dir: &RunDir, uid: u32, current: &str) {
    let mine = format!("{PREFIX}.{uid}.");
    let mut older = Vec::new();
    dir.each_name(|name| {
        if name.starts_with(&mine) && name != current {
            older.push(name.to_owned());
        }
    });
    older.iter().for_each(|name| dir.remove(name));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rendezvous::rundir::scratch::{Random, Scratch};

    const UNIX: u64 = 77;

    fn slips() -> (Scratch, Slips) {
        let dir = Scratch::new();
        let slips = Slips::map(&dir).unwrap();
        (dir, slips)
    }

    fn sent(cookie: u64) -> Sent {
        Sent::new(cookie, Role::Accepted, UNIX)
    }

    #[test]
    fn the_last_holder_is_alone() {
        let (_dir, slips) = slips();
        assert!(slips.begin(sent(9)));
        assert!(!slips.end(9), "the sender, and the message");
        assert_eq!(slips.receive(9, UNIX), Some(Role::Accepted));
        assert!(!slips.end(9), "the sender, and the receiver");
        slips.leave(9);
        assert!(slips.end(9));
        assert!(!slips.end(9), "once");
        assert!(slips.begin(sent(9)), "and again");
    }

    #[test]
    fn a_message_that_nobody_receives_counts() {
        let (_dir, slips) = slips();
        assert!(slips.begin(sent(9)));
        slips.leave(9);
        assert_eq!(slips.receive(9, UNIX + 1), None, "from elsewhere");
        assert_eq!(slips.receive(8, UNIX), None, "another socket");
        assert_eq!(slips.receive(9, UNIX), Some(Role::Accepted));
        assert_eq!(slips.receive(9, UNIX), None, "a second copy");
    }

    #[test]
    fn one_that_was_not_sent_does_not() {
        let (_dir, slips) = slips();
        let end = Sent::new(9, Role::Connected, UNIX);
        assert!(slips.begin(end));
        slips.take_back(end);
        assert_eq!(slips.receive(9, UNIX), None);
        assert!(slips.add(end));
        assert_eq!(slips.receive(9, UNIX), Some(Role::Connected));
        slips.leave(9);
        assert!(slips.end(9));
    }

    #[test]
    fn doubt_is_for_ever() {
        let (_dir, slips) = slips();
        assert!(slips.begin(sent(9)));
        assert!(!slips.add(sent(9)), "two messages");
        assert_eq!(slips.receive(9, UNIX), None);
        slips.leave(9);
        slips.leave(9);
        assert!(!slips.end(9));
        assert!(!slips.begin(sent(9)));
        assert!(!slips.add(sent(8)), "no slip");
    }

    #[test]
    fn a_look_at_messages_holds_everything_back() {
        let (_dir, slips) = slips();
        assert!(slips.begin(sent(9)));
        slips.peek_begins();
        slips.leave(9);
        assert_eq!(slips.receive(9, UNIX), Some(Role::Accepted));
        assert!(!slips.end(9));
        slips.void(9);
        slips.peek_ends();
        assert!(!slips.end(9));
    }

    #[test]
    fn new_ones_push_old_ones_out() {
        let (_dir, slips) = slips();
        let all = 1..=2 * SLOTS as u64;
        all.clone()
            .for_each(|cookie| assert!(slips.begin(sent(cookie))));
        let left = all.filter(|cookie| slips.find(*cookie).is_some()).count();
        assert!(left > SLOTS / 2 && left <= SLOTS, "{left}");
        assert_eq!(slips.receive(2 * SLOTS as u64, UNIX), Some(Role::Accepted));
    }

    #[test]
    fn a_writer_that_was_killed_is_not_waited_for_long() {
        let (_dir, slips) = slips();
        assert!(slips.begin(sent(9)));
        let (slot, count) = slips.find(9).unwrap();
        assert!(Slips::swap(slot, 9, count, BUSY));
        slips.leave(9);
        slips.void(9);
        assert_eq!(slips.receive(9, UNIX), None);
        assert!(!slips.add(sent(9)) && !slips.end(9));
    }

    #[test]
    fn any_content_is_survived() {
        let (_dir, slips) = slips();
        let counts = [0, 1, 2, MOST_SHARES, MOST_SHARES + 1, BUSY, VOID];
        let mut random = Random(7);
        for round in 0..500 {
            let cookie = 1 + round % 3;
            slips.table().peeks.store(random.number(), Ordering::SeqCst);
            for slot in slips.window(cookie) {
                let known = word(cookie, counts[random.number() as usize % counts.len()]);
                let words = [known, random.number(), 0, u64::MAX];
                let any = |random: &mut Random| words[random.number() as usize % words.len()];
                slot.word.store(any(&mut random), Ordering::SeqCst);
                slot.to.store(any(&mut random), Ordering::SeqCst);
            }
            slips.peek_begins();
            slips.begin(sent(cookie));
            slips.add(sent(cookie));
            slips.receive(cookie, UNIX);
            slips.take_back(sent(cookie));
            slips.leave(cookie);
            slips.end(cookie);
            slips.void(cookie);
            slips.peek_ends();
        }
    }

    #[test]
    fn another_process_has_the_same_table() {
        let (dir, slips) = slips();
        let other = Slips::map(&dir).unwrap();
        assert!(slips.begin(sent(9)));
        assert_eq!(other.receive(9, UNIX), Some(Role::Accepted));
        std::fs::write(dir.path.join(format!("{PREFIX}.0.1")), "").unwrap();
        assert!(!fits(0) && !fits(1 << 48) && fits((1 << 48) - 1));
    }
}
