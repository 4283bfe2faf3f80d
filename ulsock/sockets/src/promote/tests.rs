//! From kernel TCP to rings, and who dies on the way.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering;

use rendezvous::config::{Config, Rules, Who, file};
use rendezvous::reason::Reason;
use rustix::io::Errno;

use crate::state::record::Record;
use crate::testing::{ON_KERNEL, ON_RINGS, World};

/// Round trips after which a connection is on rings for certain.
const LAST_STEP: usize = 11;

#[test]
fn two_programs_find_each_other() {
    let mut world = World::plain();
    assert_eq!(world.client.carriers(world.near), ON_KERNEL);
    world.promote();
    assert!(world.client.is_managed(world.near) && world.server.is_managed(world.far));
    world.round_trip();
}

/// What the kernel was given before arrives before what goes by the ring.
#[test]
fn bytes_on_their_way_keep_their_order() {
    let world = World::plain();
    let (mut sent, mut read) = (0_u8, Vec::new());
    while world.client.carriers(world.near) != ON_RINGS && sent < 250 {
        for _ in 0..3 {
            sent += 1;
            assert_eq!(world.client.send(world.near, &[sent]), Ok(1));
        }
        // One byte stays on its way each time.
        read.extend(world.server.receive(world.far, 2).expect("two bytes"));
        assert_eq!(world.server.send(world.far, b"-"), Ok(1));
        let _ = world.client.receive(world.near, 9);
    }
    while let Ok(some) = world.server.receive(world.far, 99) {
        read.extend(some);
    }
    assert_eq!(world.client.carriers(world.near), ON_RINGS);
    assert_eq!(read, (1..=sent).collect::<Vec<u8>>());
}

#[test]
fn without_a_peer_that_knows_us_it_stays() {
    let world = World::between(|_| {}, |server| server.enabled = false);
    for _ in 0..50 {
        world.round_trip();
    }
    assert_eq!(world.client.carriers(world.near), ON_KERNEL);
    assert_eq!(
        world.client.record(world.near, Record::reason),
        Reason::NoPeer
    );
}

#[test]
fn a_pinned_connection_is_left_alone() {
    let world = World::plain();
    world.client.to_kernel(world.near);
    for _ in 0..50 {
        world.round_trip();
    }
    assert_eq!(world.client.carriers(world.near), ON_KERNEL);
    assert_eq!(
        world.client.record(world.near, Record::reason),
        Reason::Call
    );
}

/// The client is killed after each of its first calls: before its offer, after it, before and after it is confirmed.
#[test]
fn a_client_that_is_killed_at_any_step() {
    for steps in 0..=LAST_STEP {
        let world = World::plain();
        (0..steps).for_each(|_| world.round_trip());
        assert!(steps < LAST_STEP || world.is_on_rings());
        assert_eq!(world.client.send(world.near, b"end"), Ok(3));
        world.client.is_killed();
        assert_eq!(
            world.server.receive(world.far, 9),
            Ok(b"end".to_vec()),
            "{steps}"
        );
        let end = world.server.receive(world.far, 9);
        assert!(
            end == Ok(Vec::new()) || end == Err(Errno::CONNRESET),
            "{steps}: {end:?}"
        );
    }
}

/// The same of the server.
#[test]
fn a_server_that_is_killed_at_any_step() {
    for steps in 0..=LAST_STEP {
        let world = World::plain();
        (0..steps).for_each(|_| world.round_trip());
        assert!(steps < LAST_STEP || world.is_on_rings());
        assert_eq!(world.server.send(world.far, b"end"), Ok(3));
        world.server.is_killed();
        assert_eq!(
            world.client.receive(world.near, 9),
            Ok(b"end".to_vec()),
            "{steps}"
        );
        let end = world.client.receive(world.near, 9);
        assert!(
            end == Ok(Vec::new()) || end == Err(Errno::CONNRESET),
            "{steps}: {end:?}"
        );
    }
}

/// The rules of a configuration file with this text.
fn rules(text: &str) -> Rules {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ulsock.toml");
    fs::write(&path, text).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
    let path = path.to_str().expect("a path").to_owned();
    let named = [(file::VARIABLE.to_owned(), path)];
    let config = Config::of(named.into_iter(), Who::myself).expect("variables");
    assert!(!config.rules.are_none(), "{:?}", config.file);
    config.rules
}

/// At either end; the other never gets rings either, and both go on.
#[test]
fn a_rule_keeps_a_connection_on_the_kernel() {
    let kept = |direction| {
        rules(&format!(
            "[[rule]]\naddress = '127.0.0.0/8'\ndirection = '{direction}'\ncarrier = 'kernel'"
        ))
    };
    let ends = [
        World::between(|client| client.rules = kept("connect"), |_| {}),
        World::between(|_| {}, |server| server.rules = kept("accept")),
    ];
    for (world, [near, far]) in ends.iter().zip([
        [Reason::Rule, Reason::NoPeer],
        [Reason::NoPeer, Reason::Rule],
    ]) {
        for _ in 0..50 {
            world.round_trip();
        }
        assert_eq!(world.client.carriers(world.near), ON_KERNEL);
        assert_eq!(world.server.carriers(world.far), ON_KERNEL);
        assert_eq!(world.client.record(world.near, Record::reason), near);
        assert_eq!(world.server.record(world.far, Record::reason), far);
    }
}

#[test]
fn a_rule_for_others_keeps_nothing() {
    let others = "[[rule]]\naddress = '127.0.0.0/8'\ncarrier = 'on'\n[[rule]]\ncarrier = 'kernel'";
    let mut world = World::between(
        |client| client.rules = rules(others),
        |server| server.rules = rules("[[rule]]\nport = 1\ncarrier = 'kernel'"),
    );
    world.promote();
}

#[test]
fn a_rule_says_when_and_how_far() {
    let sooner = "[[rule]]\naddress = '127.0.0.1'\nupgrade_after = 3\nring = 16384";
    let change = |config: &mut Config| {
        config.rules = rules(sooner);
        config.upgrade_after = Some(1_000_000);
    };
    let mut world = World::between(change, |_| {});
    world.promote();
    // More than the smallest ring holds: the rest goes by the kernel, for no larger ring is allowed.
    let by_kernel = || {
        let count = |record: &Record| record.tx.counts.kernel_bytes.load(Ordering::Relaxed);
        world.client.record(world.near, count)
    };
    let (before, mut sent) = (by_kernel(), 0);
    while let Ok(n) = world.client.send(world.near, &[7; 8192]) {
        sent += n;
        assert!(sent < 1 << 26, "somebody must say that there is no room");
    }
    assert!(by_kernel() > before);
}
