//! Who is let in: a key that is replaced, a key that is taken back, and strangers who call and say nothing.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::world::World;
use crate::identity::Identity;
use crate::peers::CONTROL_PORT;
use crate::secure::HANDSHAKE;

/// The peers file with these keys of the first host.
fn list(world: &World, keys: &[&Identity]) {
    let file = world.folder.path().join("peers");
    let text = fs::read_to_string(&file).expect("the file");
    let second = text.lines().nth(1).expect("two lines");
    let keys: Vec<String> = keys.iter().map(|key| key.public().to_string()).collect();
    let first = format!("10.9.0.1 keys={}", keys.join(","));
    fs::write(&file, format!("{first}\n{second}\n")).expect("to write it");
}

fn restart_first(world: &mut World) {
    world.hosts[0].signal(Signal::TERM);
    world.hosts[0].wait();
    let folder = world.folder.path().to_owned();
    world.hosts[0].start(&folder, "packet");
}

/// As the manual says it, step by step.
#[test]
fn a_key_is_replaced_without_a_host_that_does_not_know_its_peer() {
    let mut world = World::new("packet");
    let file = world.folder.path().join("1.key");
    let old = Identity::load(&file).expect("the old key");
    let new = Identity::generate().expect("a new key");
    list(&world, &[&old, &new]);
    world.hosts.iter().for_each(|host| host.signal(Signal::HUP));
    world.wait_until_up();
    fs::remove_file(&file).expect("to remove the old key");
    new.store(&file).expect("to store the new one");
    restart_first(&mut world);
    world.wait_until_up();
    list(&world, &[&new]);
    world.hosts.iter().for_each(|host| host.signal(Signal::HUP));
    thread::sleep(Duration::from_millis(200));
    world.wait_until_up();
}

#[test]
fn who_has_a_key_that_is_taken_back_is_out() {
    let world = World::new("packet");
    let other = Identity::generate().expect("another key");
    let old = Identity::load(&world.folder.path().join("1.key")).expect("the old key");
    list(&world, &[&other]);
    world.hosts[1].signal(Signal::HUP);
    world.hosts[1].wait_for("the end of the link", |peer| {
        !peer.link_up && !peer.in_touch
    });
    world.hosts[0].wait_for("the end of the link", |peer| !peer.link_up);
    // It calls again and again, in vain.
    thread::sleep(Duration::from_millis(700));
    world.hosts[1].wait_for("nobody", |peer| !peer.link_up && !peer.in_touch);
    list(&world, &[&old]);
    world.hosts[1].signal(Signal::HUP);
    world.wait_until_up();
}

/// Any user of a host can call from its address: more silent calls than are kept do not keep the daemon's
/// own from being answered, nor the other side from calling, while they last.
#[test]
fn callers_who_say_nothing_keep_nobody_out() {
    let mut world = World::new("packet");
    world.hosts[0].signal(Signal::TERM);
    world.hosts[0].wait();
    let there = SocketAddr::from(([10, 9, 0, 2], CONTROL_PORT));
    let call = |_| TcpStream::connect(there).expect("the daemon");
    let began = Instant::now();
    let calls: Vec<TcpStream> = world.hosts[0].within(|| (0..100).map(call).collect());
    let folder = world.folder.path().to_owned();
    world.hosts[0].start(&folder, "packet");
    world.wait_until_up();
    assert!(began.elapsed() < HANDSHAKE);
    drop(calls);
}
