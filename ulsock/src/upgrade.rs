//! From plain kernel TCP to a ring pair: offer, claim, confirm.
//!
//! Called at a few of a connection's data calls (the 1st, 2nd, 4th, 8th... after it has shown that
//! it lives). The connecting side offers, the accepting side claims, the connecting side confirms;
//! each checks the other end with the kernel before it shares memory with it. Nobody waits.

pub mod at_once;
mod by_broker;
mod by_daemon;
mod elsewhere;
pub mod history;
mod stay;

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{fence, Ordering};
use std::sync::Arc;

use crate::config::{Nic, OutOfScope, Reach};
use crate::control::Control;
use crate::family::Family;
use crate::layout::{CLAIMER, CONFIRMED, OFFERER};
use crate::link::Link;
use crate::log;
use crate::offers::{Key, Offer};
use crate::options;
use crate::pair::{Claim, Other, Pair};
use crate::process::{self, Locked};
use crate::reason::Reason;
use crate::record::{flag, Counts, Record, Role, State};
use crate::sockopt;
use crate::sys::window::OVERFLOW_UID;
use crate::sys::{diag, tcp};
use crate::thread::Thread;
use history::{End, History};

const TCP_ESTABLISHED: u8 = 1;
/// A claim that is not confirmed by this call is looked at less often.
const PATIENCE: u32 = 1024;
/// Calls at which a look may be put off because the control state was in use.
const MOST_MISSED: u32 = 4;
/// Looks are spaced by at most this many calls.
const FARTHEST_LOOK: u32 = 256;

/// Of this process's listeners, and of the ports that it connects to; some may share one.
static HISTORIES: [History; 64] = [const { History::new() }; 64];

fn history(record: &Record) -> &'static History {
    &HISTORIES[record.history.load(Ordering::Relaxed) as usize % HISTORIES.len()]
}

/// A connection has got its record. `kin` is a number that it shares with those like it.
#[inline]
pub fn born(record: &Record, role: Role, kin: u32) {
    // Listeners and ports side by side are kept apart.
    let kin = 2 * kin + u32::from(role == Role::Connected);
    record.history.store(kin, Ordering::Relaxed);
    let after = process::config().upgrade_after;
    let after = after.unwrap_or_else(|| history(record).after());
    record.first_look.store(after, Ordering::Relaxed);
    record.next_look.store(after, Ordering::Relaxed);
}

/// It has ended: what it was like is told to those that follow.
#[inline]
pub fn ended(record: &Record) {
    let calls = record.calls.load(Ordering::Relaxed);
    let count = |counts: &Counts| counts.messages.load(Ordering::Relaxed);
    let end = if record.has(flag::UPGRADED) {
        End::Upgraded
    } else if calls >= record.first_look.load(Ordering::Relaxed) {
        End::Failed
    } else {
        End::Plain
    };
    let messages = count(&record.tx.counts) + count(&record.rx.counts);
    history(record).note(messages.max(calls.into()), end);
}

/// Counts a data call on a plain connection and, now and then, tries to upgrade it.
#[inline]
pub fn note_call(family: &Family, number: u32, record: &Record, fd: RawFd) {
    let calls = record.calls.load(Ordering::Relaxed).wrapping_add(1);
    record.calls.store(calls, Ordering::Relaxed);
    if calls >= record.next_look.load(Ordering::Relaxed) {
        look_at_call(family, number, record, fd, calls);
    }
}

#[cold]
fn look_at_call(family: &Family, number: u32, record: &Record, fd: RawFd, calls: u32) {
    look(family, number, record, fd, calls);
    if calls == 1 {
        at_once::at_first_call(family, number, fd);
    }
}

fn look(family: &Family, number: u32, record: &Record, fd: RawFd, calls: u32) {
    let after = record.first_look.load(Ordering::Relaxed);
    if calls < after {
        return record.next_look.store(after, Ordering::Relaxed);
    }
    if let Some(reason) = process::frozen_for() {
        if !record.has(flag::PINNED) {
            record.set_reason(reason);
        }
        return record.next_look.store(u32::MAX, Ordering::Relaxed);
    }
    // Upgrading takes memory, which a signal handler must not.
    if Thread::me().is_none_or(Thread::in_handler) {
        return;
    }
    let Some(mut locked) = lock(calls.wrapping_sub(record.next_look.load(Ordering::Relaxed)))
    else {
        return;
    };
    let Some(control) = locked.control() else {
        let later = calls.saturating_add(FARTHEST_LOOK);
        return record.next_look.store(later, Ordering::Relaxed);
    };
    // Another thread may have finished it before we got the lock.
    if record.state() != State::Plain {
        return;
    }
    if record.has(flag::PARTED) && !control.drop_retired() {
        return record.next_look.store(calls + 1, Ordering::Relaxed);
    }
    if record.has(flag::PINNED) {
        return stay::stay(control, number, record);
    }
    let step = calls.saturating_sub(after).clamp(1, FARTHEST_LOOK);
    record
        .next_look
        .store(calls.saturating_add(step), Ordering::Relaxed);
    if record.procs.load(Ordering::Acquire) != 1 {
        return record.set_reason(Reason::Shared);
    }
    // A set that another process holds too cannot tell about rings.
    if !crate::epoll::may_convert(number) {
        return record.set_reason(Reason::Shared);
    }
    record.pid.store(process::pid(), Ordering::Relaxed);
    // SAFETY: the program is calling with this fd; if it closes it meanwhile, the calls below fail.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let attempt = Attempt {
        family,
        number,
        record,
        socket,
    };
    if let Some(reason) = attempt.leads_elsewhere(control) {
        record.set_reason(reason);
        return stay::stay(control, number, record);
    }
    let was_offered = control.offers.contains_key(&number);
    let here = match record.role() {
        Role::Connected => attempt.as_connected(control),
        Role::Accepted => attempt.as_accepted(control),
    };
    let may_seek = match record.role() {
        // Who shares our run directory has not taken the offer.
        Role::Connected => was_offered,
        Role::Accepted => matches!(here, Err(Reason::NoPeer)),
    };
    let result = match attempt.is_to_other_host() {
        true => by_daemon::attempt(&attempt, control, here),
        false => here,
    };
    let result = match may_seek {
        true => by_broker::attempt(&attempt, control, result),
        false => result,
    };
    if !matches!(result, Ok(Progress::Soon | Progress::Shown)) && attempt.may_stay(control, calls) {
        stay::stay(control, number, record);
    }
    match result {
        Ok(Progress::Waiting) => {}
        // The answer may come any time now: look again soon.
        Ok(Progress::Soon | Progress::Shown) => {
            record.next_look.store(calls + 1, Ordering::Relaxed);
        }
        Err(reason) => record.set_reason(reason),
    }
}

/// If somebody else is at it, this connection's turn comes at its next call; but on a crowded
/// machine somebody always is, so after a few calls it waits.
fn lock(missed: u32) -> Option<Locked> {
    if missed < MOST_MISSED {
        Locked::take()
    } else {
        Locked::wait()
    }
}

enum Progress {
    Waiting,
    Soon,
    /// The daemon of this host has been shown it, for another host.
    Shown,
}

struct Attempt<'a> {
    family: &'a Family,
    number: u32,
    record: &'a Record,
    socket: BorrowedFd<'a>,
}

impl Attempt<'_> {
    fn as_connected(&self, control: &mut Control) -> Result<Progress, Reason> {
        if !control.offers.contains_key(&self.number) {
            let key = self.key()?;
            self.check_kind()?;
            let cookie = tcp::cookie(self.socket).map_err(|_| Reason::Call)?;
            let full = |full| {
                if full {
                    Reason::TableFull
                } else {
                    Reason::RunDir
                }
            };
            control.offer(self.number, key, cookie).map_err(full)?;
            self.record.set(flag::PENDING);
            self.record.set_reason(Reason::NoPeer);
            return Ok(Progress::Soon);
        }
        answer_claims(self.family, control);
        Ok(if control.is_wanted(self.number) {
            Progress::Soon
        } else {
            Progress::Waiting
        })
    }

    fn as_accepted(&self, control: &mut Control) -> Result<Progress, Reason> {
        if control.claims.contains_key(&self.number) {
            return self.check_confirmation(control);
        }
        let key = self.key()?;
        let (local, peer) = self.ends()?;
        let reach = Reach::of(local, peer);
        // A peer on another host never makes an offer here, and asking the kernel about it costs more.
        if reach == Reach::Host && control.is_offered_by_nobody(&key) {
            return Err(Reason::NoPeer);
        }
        self.check_kind()?;
        match diag::other_end(&local, &peer).ok().flatten() {
            Some(other) => {
                let offer = control.find_offer(&key, other.uid).ok_or(Reason::NoPeer)?;
                if offer.cookie != other.cookie {
                    return Err(Reason::Identity);
                }
                let pair = pair_with(control, &offer, other.uid)?;
                self.claim(control, &pair, offer.cookie)
            }
            None if reach == Reach::Host => self.claim_elsewhere(control, &key, local, peer),
            None => Err(Reason::NoPeer),
        }
    }

    fn claim(
        &self,
        control: &mut Control,
        pair: &Arc<Pair>,
        offer_cookie: u64,
    ) -> Result<Progress, Reason> {
        let claim_cookie = tcp::cookie(self.socket).map_err(|_| Reason::Call)?;
        let (segment, conn) = pair.allocate().ok_or(Reason::Memory)?;
        let claim = Claim {
            offer_cookie,
            claim_cookie,
            segment: segment.number,
            conn,
        };
        let link = Box::new(Link::new(pair.clone(), segment, conn, CLAIMER));
        if !pair.send_claim(claim) {
            link.was_not_claimed();
            return Err(Reason::PeerGone);
        }
        control.claims.insert(self.number, link);
        self.record.set(flag::PENDING);
        Ok(Progress::Soon)
    }

    fn check_confirmation(&self, control: &mut Control) -> Result<Progress, Reason> {
        let confirmed = |link: &Link| link.theirs().stage.load(Ordering::Acquire) == CONFIRMED;
        if !control
            .claims
            .get(&self.number)
            .is_some_and(|link| confirmed(link))
        {
            let calls = self.record.calls.load(Ordering::Relaxed);
            return Ok(if calls < PATIENCE {
                Progress::Soon
            } else {
                Progress::Waiting
            });
        }
        if let Some(link) = control.claims.remove(&self.number) {
            establish(self.family, control, self.number, self.socket, link);
        }
        Ok(Progress::Waiting)
    }

    /// Another host has the other end, as far as addresses tell, and the program may talk to it by the
    /// daemon.
    fn is_to_other_host(&self) -> bool {
        let ends = self.record.local().zip(self.record.peer());
        let config = process::config();
        config.nic != Nic::Off
            && ends.is_some_and(|(local, peer)| config.scope.allows_other_hosts(local, peer))
    }

    fn ends(&self) -> Result<(SocketAddr, SocketAddr), Reason> {
        let ends = self.record.local().zip(self.record.peer());
        ends.ok_or(Reason::Call)
    }

    /// The connection's name, once it is known to be in scope.
    fn key(&self) -> Result<Key, Reason> {
        if !names_one_user(rustix::process::geteuid().as_raw()) {
            return Err(Reason::Identity);
        }
        let local = tcp::local_addr(self.socket).map_err(|_| Reason::Call)?;
        let peer = tcp::peer_addr(self.socket).map_err(|_| Reason::Call)?;
        self.record.set_addresses(local, peer);
        if let Err(out) = process::config().scope.check(Some(local), peer) {
            if !self.is_to_other_host() {
                self.record.set(flag::PINNED);
            }
            return Err(match out {
                OutOfScope::Address => Reason::Scope,
                OutOfScope::Excluded => Reason::Excluded,
            });
        }
        let netns = match Reach::of(local, peer) {
            Reach::Namespace => tcp::netns_cookie(self.socket).map_err(|_| Reason::Call)?,
            Reach::Host => Key::ANY_NETNS,
        };
        let (client, server) = match self.record.role() {
            Role::Connected => (local, peer),
            Role::Accepted => (peer, local),
        };
        Key::new(netns, client, server).ok_or(Reason::Call)
    }

    /// Is it of a kind that can be upgraded?
    fn check_kind(&self) -> Result<(), Reason> {
        let (local, peer) = self.ends()?;
        let established = tcp::info(self.socket).is_ok_and(|info| info.state == TCP_ESTABLISHED);
        if crate::uring::found() {
            return Err(Reason::IoUring);
        }
        let unfit = local == peer
            || !established
            || tcp::is_mptcp(self.socket)
            || options::is_asynchronous(self.socket);
        if unfit || sockopt::needs_kernel(self.socket) {
            return Err(Reason::Call);
        }
        Ok(())
    }
}

/// The process that has made an offer, which must run as `uid`.
fn pair_with(control: &mut Control, offer: &Offer, uid: u32) -> Result<Arc<Pair>, Reason> {
    let pair = names_one_user(uid).then(|| control.pair_with(offer.mailbox, uid));
    pair.flatten().ok_or(Reason::Identity)
}

/// Offering side: reads the mail, and gives the records whose claims it has answered.
fn answer_claims(family: &Family, control: &mut Control) -> Vec<u32> {
    let mut answered = Vec::new();
    by_broker::hear(family, control);
    let pairs = control.check_mail();
    for number in control.take_windows(&pairs) {
        // The claim follows as soon as the other end has looked.
        family.record(number).look_soon();
    }
    for pair in pairs {
        while let Some(claim) = pair.next_claim() {
            // A link that is not taken is dropped, and its block is free again.
            let link = link_of(&pair, claim);
            if let Some(number) = control.offered(claim.offer_cookie) {
                match link {
                    Some(link) => confirm(family, control, number, claim, link),
                    None => family.record(number).set_reason(Reason::Memory),
                }
                answered.push(number);
            }
        }
    }
    answered
}

/// `None` for a block that does not exist.
fn link_of(pair: &Arc<Pair>, claim: Claim) -> Option<Box<Link>> {
    let segment = pair.segment(claim.segment)?;
    segment
        .has_block(claim.conn)
        .then(|| Box::new(Link::new(pair.clone(), segment, claim.conn, OFFERER)))
}

/// Whether a uid proves anything.
pub fn names_one_user(uid: u32) -> bool {
    uid != OVERFLOW_UID || crate::sys::proc::users_are_distinct()
}

/// A claim has come; is it by the process at the other end of that connection?
fn confirm(family: &Family, control: &mut Control, number: u32, claim: Claim, link: Box<Link>) {
    let record = family.record(number);
    let Some((local, peer)) = record.local().zip(record.peer()) else {
        return;
    };
    if link.pair.other() == Other::Introduced {
        // It was told of us after we were told of it; but that may not have been heard yet.
        by_broker::hear(family, control);
        if !control.is_vouched_for(number, &link.pair, claim.claim_cookie) {
            return record.set_reason(Reason::Identity);
        }
        return confirmed(family, control, number, link);
    }
    let other = elsewhere::other_end(&link.pair, &local, &peer);
    let genuine = other.as_ref().is_some_and(|other| {
        other.cookie == claim.claim_cookie
            && other.uid == link.pair.peer().uid
            && names_one_user(other.uid)
    });
    if !genuine {
        let gone = other.is_none();
        return record.set_reason(if gone {
            Reason::PeerGone
        } else {
            Reason::Identity
        });
    }
    confirmed(family, control, number, link);
}

fn confirmed(family: &Family, control: &mut Control, number: u32, link: Box<Link>) {
    let Some(fd) = crate::lifecycle::fd_of(number) else {
        return;
    };
    // SAFETY: the number was taken from our own table just now.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    establish(family, control, number, socket, link);
}

fn may_be_managed(record: &Record) -> bool {
    record.state() == State::Plain
        && record.procs.load(Ordering::Acquire) == 1
        && !record.stays_on_kernel()
}

/// Both ends know each other: from here on every call on this connection is ours.
fn establish(
    family: &Family,
    control: &mut Control,
    number: u32,
    socket: BorrowedFd<'_>,
    link: Box<Link>,
) {
    let record = family.record(number);
    control.forget(number);
    record.clear(flag::PENDING);
    if !may_be_managed(record) {
        return control.retire(link);
    }
    crate::options::load(record, socket);
    // A daemon asks those who are ready to be asked. Who sleeps inside the gate does not hear of it.
    if !link.is_nic || record.rx.gate.is_idle() {
        link.mine().stage.store(CONFIRMED, Ordering::Release);
    }
    log::debug(format_args!(
        "connection {:?} -> {:?} has a ring pair",
        record.local(),
        record.peer()
    ));
    // The end that connected proposes, and knows why not.
    record.set_reason(match link.is_nic && record.role() == Role::Accepted {
        true => Reason::NoProposal,
        false => Reason::None,
    });
    if let Some(old) = family.set_link(number, Some(link)) {
        control.retire(old);
    }
    record.set(flag::USED);
    let to_daemon = family.link(number).filter(|link| link.is_nic);
    record.set_state(State::Managed);
    if let Some(link) = to_daemon {
        link.ring_daemon();
    }
    // Who adds it to a set says so first and then looks at the state: one of the two sees the other.
    fence(Ordering::SeqCst);
    crate::epoll::convert(number);
}
