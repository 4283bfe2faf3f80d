//! What a stranger gets, and what a peer that is known and hostile.

use std::os::fd::{AsFd, AsRawFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;
use os::fds::to_high;
use shm::doorbell::{Doorbell, DoorbellKind};
use shm::layout::{Block, CLAIMER, LARGE, Layout, OFFERER, RELEASED, SMALL};
use shm::segment::Segment;

const OTHER_USER: u32 = 4_000_000;

/// Our side of a pair with another user's process, and its end of the channel.
fn pair_of(share: Share) -> (Arc<Pair>, Channel) {
    shm::waiter::begin_for_tests();
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let ends = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let [near, far] = [ends.0, ends.1].map(|fd| Channel::given(to_high(fd).unwrap()).unwrap());
    let peer = Credentials {
        pid: 1,
        uid: OTHER_USER,
    };
    let pair = Pair::begin(Other::Peer, near, peer, false, share.into()).unwrap();
    (pair, far)
}

fn stranger() -> (Arc<Pair>, Channel) {
    pair_of(Share::of_other_user())
}

fn send_bell(far: &Channel, waiter: u32) {
    let bell = Doorbell::new_pair().unwrap();
    let kind = DoorbellKind::Socket;
    far.send(&Message::Doorbell { waiter, kind }, Some(bell.far_fd()))
        .unwrap();
}

fn send_segment(far: &Channel, segment: u32, conns: u32) -> Segment {
    let size = Layout::new(conns).unwrap().size() as u64;
    let (memory, fd) = Segment::create(size).unwrap();
    far.send(&Message::Segment { segment, conns }, Some(fd.as_fd()))
        .unwrap();
    memory
}

fn claim(segment: u32, conn: u32) -> Claim {
    Claim {
        offer_cookie: 1,
        claim_cookie: 2,
        segment,
        conn,
    }
}

fn send_claim(far: &Channel, it: Claim) {
    let message = Message::Claim {
        offer_cookie: it.offer_cookie,
        claim_cookie: it.claim_cookie,
        segment: it.segment,
        conn: it.conn,
    };
    far.send(&message, None).unwrap();
}

/// By what it has mapped of a peer's segments.
fn mapped(pair: &Pair) -> usize {
    pair.segments.lock().unwrap().mapped()
}

fn unmapped(pair: &Pair) -> usize {
    pair.segments.lock().unwrap().unmapped()
}

#[test]
fn a_strangers_bell_ends_the_pair() {
    let (pair, far) = stranger();
    send_bell(&far, 0);
    pair.receive();
    assert!(pair.is_dead());
    assert!(pair.ringer(0).is_none());
}

#[test]
fn a_stranger_has_one_segment_which_is_not_mapped() {
    let (pair, far) = stranger();
    send_segment(&far, 0, SMALL);
    pair.receive();
    assert!(!pair.is_dead());
    assert_eq!([mapped(&pair), unmapped(&pair)], [0, 1]);
    send_segment(&far, 1, LARGE);
    pair.receive();
    assert!(pair.is_dead());
    assert_eq!([mapped(&pair), unmapped(&pair)], [0, 1]);
}

#[test]
fn what_follows_a_strangers_claim_waits_for_its_proof() {
    let (pair, far) = stranger();
    send_segment(&far, 0, SMALL);
    send_claim(&far, claim(0, 0));
    send_bell(&far, 7);
    pair.receive();
    assert!(!pair.is_dead() && pair.ringer(7).is_none());
    assert!(pair.next_claim().is_some());
    pair.judge(Verdict::Genuine);
    pair.receive();
    assert!(!pair.is_dead() && pair.ringer(7).is_some());
}

#[test]
fn a_false_claim_ends_a_strangers_pair() {
    let (pair, far) = stranger();
    send_segment(&far, 0, SMALL);
    send_claim(&far, claim(0, 0));
    pair.receive();
    pair.judge(Verdict::False);
    assert!(pair.is_dead());
    assert_eq!(mapped(&pair), 0);
}

#[test]
fn a_genuine_claim_maps_its_segment_and_frees_what_was_turned_down() {
    let (pair, far) = stranger();
    let theirs = send_segment(&far, 0, SMALL);
    pair.receive();
    pair.turn_down(&claim(0, 3), Reason::PeerGone);
    pair.turn_down(&claim(0, u32::MAX), Reason::PeerGone);
    pair.judge(Verdict::Genuine);
    assert!(pair.segment(0).is_some());
    assert_eq!([mapped(&pair), unmapped(&pair)], [1, 0]);
    let block = Layout::new(SMALL).unwrap().block(3);
    // SAFETY: the layout keeps every block within the segment, and aligned.
    let block: &Block = unsafe { shared_memory::at(theirs.base().add(block)) };
    let ours = &block.sides[1 - CLAIMER];
    assert_eq!(ours.stage.load(Ordering::Relaxed), RELEASED);
    assert_eq!(
        ours.refused.load(Ordering::Relaxed),
        Reason::PeerGone as u32
    );
}

#[test]
fn a_known_peer_cannot_make_us_map_or_keep_segments_without_claims() {
    let (pair, far) = stranger();
    pair.prove();
    for number in 0..20 {
        send_segment(&far, number, LARGE);
        pair.receive();
    }
    assert!(!pair.is_dead());
    assert_eq!(mapped(&pair), 0);
    assert!(unmapped(&pair) <= 8);
    // Those that were let go of are not there; the last ones are.
    assert!(pair.segment(0).is_none() && pair.segment(19).is_some());
}

/// A burst of connections: segments and claims come faster than the claims are looked at.
#[test]
fn segments_with_claims_are_all_mapped_in_the_end() {
    let (pair, far) = stranger();
    pair.prove();
    for number in 0..20 {
        send_segment(&far, number, LARGE);
        send_claim(&far, claim(number, 0));
    }
    let mut answered = 0;
    for _ in 0..20 {
        pair.receive();
        while let Some(claim) = pair.next_claim() {
            assert!(pair.segment(claim.segment).is_some());
            answered += 1;
        }
    }
    assert_eq!([answered, mapped(&pair), unmapped(&pair)], [20, 20, 0]);
}

#[test]
fn a_segment_that_could_shrink_ends_the_pair() {
    let (pair, far) = stranger();
    let file = rustix::fs::memfd_create("shrinks", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, Layout::new(SMALL).unwrap().size() as u64).unwrap();
    let message = Message::Segment {
        segment: 0,
        conns: SMALL,
    };
    far.send(&message, Some(file.as_fd())).unwrap();
    pair.receive();
    pair.prove();
    assert!(pair.segment(0).is_none() && pair.is_dead());
}

/// Beyond a user's share bells are dropped, and the pair goes on; what it has held it gives back.
#[test]
fn bells_end_with_the_share() {
    let share = Arc::new(Share::new(3));
    let (pair, far) = pair_of(Share::trusted());
    let mut pair = Arc::into_inner(pair).unwrap();
    pair.share = share.clone();
    pair.prove();
    for waiter in 0..10 {
        send_bell(&far, waiter);
    }
    pair.receive();
    assert!(!pair.is_dead());
    let held = (0..10).filter(|waiter| pair.ringer(*waiter).is_some());
    assert_eq!(held.count(), 3);
    assert!(!share.take());
    drop(pair);
    assert!(share.take());
}

/// A daemon has many programs, which send their bells when it is busy with others. Whoever else takes the bell out of the
/// channel, its owner is rung.
#[test]
fn who_was_rung_before_its_bell_came_is_rung_when_it_comes() {
    let (pair, far) = pair_of(Share::trusted());
    let mut pair = Arc::into_inner(pair).unwrap();
    (pair.other, pair.same_uid) = (Other::Program, true);
    pair.prove();
    let (segment, conn) = pair.allocate().unwrap();
    let bells = [3, 70].map(|waiter: u32| {
        let bell = Doorbell::new_event().unwrap();
        let kind = bell.kind();
        far.send(&Message::Doorbell { waiter, kind }, Some(bell.far_fd()))
            .unwrap();
        bell
    });
    let ring = || pair.ring(&segment, OFFERER, conn, 70);
    assert_eq!(ring(), Heard::Later, "read out of turn");
    pair.receive();
    assert_eq!(bells.each_ref().map(Doorbell::drain), [false, true]);
    assert!(ring() == Heard::Rung && bells[1].drain());
    pair.receive();
    assert!(!bells[1].drain());
}

#[test]
fn another_users_bell_never_has_a_number_of_the_programs() {
    let (pair, far) = stranger();
    pair.prove();
    send_bell(&far, 0);
    pair.receive();
    let lowest = fds::own_range_begins();
    assert!(
        pair.ringer(0)
            .is_some_and(|bell| bell.is_at_or_above(lowest))
    );
    let low = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    );
    // SAFETY: the number is open, and nobody else's from here on.
    let low = unsafe {
        let fd = low.unwrap().0;
        let number = fd.as_raw_fd();
        std::mem::forget(fd);
        fds::InternalFd::left_open(number)
    };
    assert!(low.as_raw_fd() < lowest);
    let low = Ringer::adopt(DoorbellKind::Socket, low, false).unwrap();
    assert!(pair.keep_ringer(1, low) && pair.ringer(1).is_none());
}

/// Connections that the peer has not let go of: no more memory for its user, until it does.
#[test]
fn blocks_that_are_never_released_are_not_made_up_for() {
    let (pair, _far) = stranger();
    pair.prove();
    let mut owed = Vec::new();
    while let Some((segment, conn)) = pair.allocate() {
        segment.released(conn, CLAIMER);
        owed.push((segment, conn));
        assert!(owed.len() <= 4096);
    }
    assert!(owed.len() > 1024);
    let (segment, conn) = owed.pop().unwrap();
    segment.turn_down(conn, Reason::None);
    assert!(pair.allocate().is_some());
}

#[test]
fn a_flood_of_claims_stays_in_the_channel() {
    let (pair, far) = stranger();
    pair.prove();
    for _ in 0..100 {
        // Until the channel is full.
        for conn in 0..1000 {
            let message = Message::Claim {
                offer_cookie: 1,
                claim_cookie: 2,
                segment: 0,
                conn,
            };
            let _ = far.send(&message, None);
        }
        pair.receive();
        assert!(pair.claims.lock().unwrap().len() <= MOST_CLAIMS);
    }
    assert!(!pair.is_dead());
}
