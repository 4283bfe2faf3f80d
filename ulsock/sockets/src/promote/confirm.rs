//! Claims are answered, and both ends know each other: from here on a connection has rings.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::{by_broker, elsewhere, rules, unix};
use crate::state::control::Control;
use crate::state::holders;
use crate::state::orders;
use crate::state::process_group::{ProcessGroup, fd_of};
use crate::state::record::{Record, Role, State, flag};
use crate::state::ring_pair::RingPair;
use os::log;
use os::users::names_one_user;
use rendezvous::pair::{Claim, Other, Pair, Verdict};
use rendezvous::reason::Reason;
use shm::layout::{CONFIRMED, OFFERER};

/// Offering side: reads the mail, and gives the records whose claims it has answered.
pub(super) fn answer_claims(family: &ProcessGroup, control: &mut Control) -> Vec<u32> {
    let mut answered = Vec::new();
    by_broker::hear(family, control);
    let pairs = control.check_mail();
    for number in control.take_windows(&pairs) {
        // The claim follows as soon as the other end has looked.
        family.record(number).look_soon();
    }
    let mut left = MOST_IN_VAIN;
    for pair in pairs {
        answer(family, control, &pair, &mut answered, &mut left);
    }
    answered
}

/// Questions to the kernel in vain, at a look. What is left is answered at the next, which begins with another peer.
const MOST_IN_VAIN: u32 = 64;

fn answer(
    family: &ProcessGroup,
    control: &mut Control,
    pair: &Arc<Pair>,
    answered: &mut Vec<u32>,
    left: &mut u32,
) {
    let was_stranger = pair.is_stranger();
    while let Some(claim) = (*left > 0).then(|| pair.next_claim()).flatten() {
        match control.offered(claim.offer_cookie) {
            Some(number) => {
                let verdict = judge(family, control, number, pair, &claim);
                *left -= u32::from(verdict != Verdict::Genuine);
                answered.push(number);
            }
            None => {
                pair.judge(Verdict::Unknown);
                pair.turn_down(&claim, Reason::None);
            }
        }
    }
    if was_stranger && !pair.is_stranger() {
        // What came behind its first claim has waited for this.
        pair.receive();
        answer(family, control, pair, answered, left);
    }
}

/// A claim has come; is it by the process at the other end of that connection? Nothing is done for it before that
/// is known.
fn judge(
    family: &ProcessGroup,
    control: &mut Control,
    number: u32,
    pair: &Arc<Pair>,
    claim: &Claim,
) -> Verdict {
    let verdict = examine(family, control, number, pair, claim);
    pair.judge(verdict);
    let record = family.record(number);
    let reason = match verdict {
        Verdict::Genuine => match link_of(pair, claim) {
            Some(link) => {
                confirmed(family, control, number, link);
                return verdict;
            }
            None => Reason::Memory,
        },
        Verdict::Unknown | Verdict::Gone => Reason::PeerGone,
        Verdict::False => Reason::Identity,
    };
    record.set_reason(reason);
    pair.turn_down(claim, reason);
    verdict
}

/// `None` for a block that does not exist.
fn link_of(pair: &Arc<Pair>, claim: &Claim) -> Option<Box<RingPair>> {
    let segment = pair.segment(claim.segment)?;
    segment
        .has_block(claim.conn)
        .then(|| Box::new(RingPair::new(pair.clone(), segment, claim.conn, OFFERER)))
}

fn examine(
    family: &ProcessGroup,
    control: &mut Control,
    number: u32,
    pair: &Arc<Pair>,
    claim: &Claim,
) -> Verdict {
    let record = family.record(number);
    if record.is_unix() {
        return examine_unix(record, number, pair, claim);
    }
    let Some((local, peer)) = record.local().zip(record.peer()) else {
        return Verdict::Unknown;
    };
    if pair.other() == Other::Introduced {
        // It was told of us after we were told of it; but that may not have been heard yet.
        by_broker::hear(family, control);
        return match control.broker.vouches_for(number, pair, claim.claim_cookie) {
            true => Verdict::Genuine,
            false => Verdict::False,
        };
    }
    let Some(other) = elsewhere::other_end(pair, &local, &peer) else {
        return Verdict::Gone;
    };
    let genuine = other.cookie == claim.claim_cookie
        && other.uid == pair.peer().uid
        && names_one_user(other.uid);
    match genuine {
        true => Verdict::Genuine,
        false => Verdict::False,
    }
}

fn examine_unix(record: &Record, number: u32, pair: &Pair, claim: &Claim) -> Verdict {
    // SAFETY: a number of our own table; if the program closes it meanwhile, the questions fail.
    let socket = fd_of(number).map(|fd| unsafe { BorrowedFd::borrow_raw(fd) });
    let Some(other) = socket.and_then(|socket| unix::other_end(record, socket)) else {
        return Verdict::Gone;
    };
    let genuine =
        pair.is_near() && other.cookie == claim.claim_cookie && other.uid == pair.peer().uid;
    match genuine {
        true => Verdict::Genuine,
        false => Verdict::False,
    }
}

fn confirmed(family: &ProcessGroup, control: &mut Control, number: u32, link: Box<RingPair>) {
    let Some(fd) = crate::state::process_group::fd_of(number) else {
        return;
    };
    // SAFETY: the number was taken from our own table just now.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    establish(family, control, number, socket, link);
}

/// Tells the claiming side, too.
fn refuse(record: &Record, link: &RingPair, reason: Reason) {
    record.set_reason(reason);
    link.mine().refused.store(reason as u32, Ordering::Relaxed);
}

/// Why a plain connection must not get rings now, if there is a reason that can pass.
pub(super) fn held_back(number: u32, record: &Record) -> Option<Reason> {
    // A set that another process holds too cannot tell about rings.
    let shared =
        record.procs.load(Ordering::Acquire) != 1 || !crate::ready::epoll::may_convert(number);
    if shared {
        return Some(Reason::Shared);
    }
    if !holders::is_alone(record) {
        return Some(Reason::Passed);
    }
    orders::keep_on_kernel(record).then_some(Reason::Ordered)
}

/// Both ends know each other: from here on every call on this connection is ours.
pub(super) fn establish(
    family: &ProcessGroup,
    control: &mut Control,
    number: u32,
    socket: BorrowedFd<'_>,
    mut link: Box<RingPair>,
) {
    let record = family.record(number);
    control.forget(number);
    record.clear(flag::PENDING);
    // Nobody else has seen the link yet: it may go at once.
    if record.state() != State::Plain {
        return;
    }
    if record.stays_on_kernel() {
        return refuse(record, &link, record.reason());
    }
    if let Some(reason) = held_back(number, record) {
        return refuse(record, &link, reason);
    }
    crate::conn::socket_options::load(record, socket);
    rules::limit_rings(record, socket, &mut link);
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
    crate::ready::epoll::convert(number);
}
