//! Two daemons between two programs that do what a library does.

mod again;
mod crowd;
mod engines;
mod guests;
mod keys;
mod orphans;
mod program;
mod services;
mod strangers;
mod translated;
mod world;

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use netstack::failover::record::{LENGTH, Resume};
use rustix::process::Signal;

use crate::orphan::ACK_TIMEOUT;
use program::{End, KEY, bytes, meet, streams};
use rendezvous::reason::Reason;
use world::{TestHost, World, eventually};

/// Two ends of a connection, on the link.
fn promoted(world: &World) -> [End; 2] {
    let [near, far] = streams(world);
    let mut ends = [
        End::new(&world.hosts[0], near, true),
        End::new(&world.hosts[1], far, false),
    ];
    show_and_promote(&mut ends, 1);
    ends
}

fn show_and_promote(ends: &mut [End; 2], epoch: u64) {
    for end in ends.iter_mut() {
        end.show();
    }
    for end in ends.iter_mut() {
        end.take_claim();
    }
    promote(ends, epoch);
}

/// Both have their blocks.
fn promote(ends: &mut [End; 2], epoch: u64) {
    let [a, b] = ends;
    a.propose(epoch);
    b.agree(epoch);
    a.wait_until_open();
    b.wait_until_open();
}

/// Both write so many bytes, and read those of the other.
fn exchange(ends: &mut [End; 2], count: u64) {
    let totals = ends
        .each_ref()
        .map(|end| (end.written + count, end.read + count));
    thread::scope(|scope| {
        for (end, (write, read)) in ends.iter_mut().zip(totals) {
            scope.spawn(move || end.exchange(write, read));
        }
    });
}

fn nothing_is_left(host: &TestHost) {
    host.wait_for("an end", |peer| {
        peer.shown + peer.claimed + peer.served == 0
    });
}

fn carries(port: &str) {
    let world = World::new(port);
    let mut ends = promoted(&world);
    exchange(&mut ends, 3_000_000);
    // [W6] veth completes checksums, for both ports.
    for host in &world.hosts {
        let interfaces = host.status().expect("a status").interfaces;
        let words = interfaces
            .iter()
            .map(|it| it.checksums_computed_by.as_str());
        assert!(words.eq(["interface"]));
    }
    // A half-close: the other direction goes on.
    ends[0].say_end();
    eventually("the end of A", || ends[1].has_ended().then_some(()));
    let end = ends[1].written + 100_000;
    thread::scope(|scope| {
        let [a, b] = &mut ends;
        scope.spawn(|| b.exchange(end, 3_000_000));
        scope.spawn(|| a.exchange(3_000_000, end));
    });
    for end in &mut ends {
        end.leave();
    }
    world.hosts.iter().for_each(nothing_is_left);
    for end in &ends {
        let ended = end.stream.shutdown(std::net::Shutdown::Write);
        ended.expect("to shut down");
    }
    // No byte has gone by the kernel.
    for end in &mut ends {
        let mut rest = Vec::new();
        assert_eq!(end.stream.read_to_end(&mut rest).expect("an end"), 0);
    }
}

#[test]
fn bytes_go_both_ways_and_end() {
    carries("packet");
}

#[test]
fn and_by_xdp() {
    carries("xdp");
}

#[test]
fn a_daemon_that_stops_says_so_and_another_takes_its_place() {
    let mut world = World::new("packet");
    let mut ends = promoted(&world);
    exchange(&mut ends, 100_000);
    world.hosts[0].signal(Signal::TERM);
    for end in &ends {
        end.sleep(false);
        assert!(end.is_frozen());
    }
    world.hosts[0].wait();
    eventually("the channel's end", || {
        ends[0].pair.receive();
        ends[0].pair.is_dead().then_some(())
    });
    let folder = world.folder.path().to_owned();
    world.hosts[0].start(&folder, "packet");
    world.wait_until_up();
    ends[0].pair = meet(&world.hosts[0]);
    ends.iter_mut().for_each(End::let_go);
    show_and_promote(&mut ends, 2);
    exchange(&mut ends, 100_000);
}

#[test]
fn a_daemon_that_is_killed_is_missed() {
    let mut world = World::new("packet");
    let mut ends = promoted(&world);
    exchange(&mut ends, 100_000);
    world.hosts[1].signal(Signal::KILL);
    world.hosts[1].wait();
    let end = ends[0].written + 10;
    ends[0].write(end);
    // Who sleeps is woken.
    ends[0].sleep(false);
    assert!(ends[0].is_frozen());
}

/// `[F26]`
#[test]
fn the_bytes_of_a_dead_program_arrive() {
    let world = World::new("packet");
    let [mut a, mut b] = promoted(&world);
    a.write(50_000);
    drop(a);
    eventually("all bytes and the end", || {
        b.read();
        b.has_ended().then_some(())
    });
    assert_eq!(b.read, 50_000);
    b.leave();
    world.hosts.iter().for_each(nothing_is_left);
}

/// The daemon, which may be root's, writes to no socket but the connection's.
#[test]
fn another_socket_than_that_of_the_connection_is_not_taken() {
    let world = World::new("packet");
    let [mut a, _b] = promoted(&world);
    world.hosts[1].freeze();
    a.write(50_000);
    let (mut mine, given) = UnixStream::pair().expect("a pair");
    a.leave_with(given.as_fd());
    drop(given);
    let limit = Some(std::time::Duration::from_secs(20));
    mine.set_read_timeout(limit).expect("a time limit");
    let mut written = Vec::new();
    mine.read_to_end(&mut written).expect("that it is closed");
    assert_eq!(written.len(), 0);
}

/// `[F24]` What a program has left behind goes by the kernel if the link fails: after the deadline that a library has
/// ([F15]), not when the link is given up ([R7], three seconds).
#[test]
fn the_bytes_of_a_program_that_has_closed_go_by_the_kernel() {
    let world = World::new("packet");
    let [mut a, b] = promoted(&world);
    world.hosts[1].freeze();
    // The deadline runs from what is written now, not from when it has been left behind.
    let since = Instant::now();
    a.write(50_000);
    a.leave();
    drop(a);
    let mut kernel = Vec::new();
    let mut stream = b.stream.try_clone().expect("a duplicate");
    stream.read_to_end(&mut kernel).expect("FIN at the end");
    let took = since.elapsed();
    assert!(
        (ACK_TIMEOUT..Duration::from_secs(2)).contains(&took),
        "{took:?}"
    );
    let (head, plain) = kernel.split_first_chunk::<LENGTH>().expect("a record");
    let record = Resume::from_bytes(head);
    assert_eq!(
        record,
        Resume {
            key: KEY,
            epoch: 1,
            received: 0,
            from: 0,
            written: 50_000
        }
    );
    assert!(plain == bytes(0, 50_000));
    world.hosts[1].signal(Signal::CONT);
}

#[test]
fn the_peers_file_is_read_anew() {
    let world = World::new("packet");
    let file = world.folder.path().join("peers");
    let all = std::fs::read_to_string(&file).expect("the file");
    let [one, _] = &world.hosts;
    let ends = promoted(&world);
    let read = |text: &str| {
        std::fs::write(&file, text).expect("to write it");
        one.signal(Signal::HUP);
    };
    read("nonsense");
    read(all.lines().next().expect("a line"));
    eventually("no peers", || one.status()?.peers.is_empty().then_some(()));
    ends.iter().for_each(End::wait_until_frozen);
    read(&all);
    world.wait_until_up();
    promoted(&world);
}

#[test]
fn what_cannot_be_served_is_refused() {
    let world = World::new("packet");
    let host = &world.hosts[0];
    let (stream, _other) = host.within(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("to listen");
        let to = listener.local_addr().expect("an address");
        let near = TcpStream::connect(to).expect("to connect");
        (near, listener.accept().expect("to accept"))
    });
    let end = End::new(host, stream, true);
    end.show();
    assert_eq!(end.refusal(), Reason::NoNicd);
    // A socket of another host.
    let [_near, far] = streams(&world);
    let end = End::new(host, far, true);
    end.show();
    assert_eq!(end.refusal(), Reason::Identity);
}
