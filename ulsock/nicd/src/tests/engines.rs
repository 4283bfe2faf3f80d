//! Daemons with several engines.

use rustix::process::Signal;

use super::program::{End, streams};
use super::world::{TestHost, World, eventually};
use super::{exchange, nothing_is_left, promoted, show_and_promote};

/// Connections of each engine; `None`: it has ended.
fn connections(host: &TestHost) -> Vec<Option<usize>> {
    let engines = host.status().expect("a status").own_engines;
    let of = |it: &crate::status::OwnEngineStatus| it.runs.then_some(it.connections);
    engines.iter().map(of).collect()
}

fn wait_for(host: &TestHost, expected: &[Option<usize>]) {
    eventually(&format!("{expected:?}"), || {
        (connections(host) == expected).then_some(())
    });
}

/// Until the engines with threads have their links up, too.
fn wait_for_links(world: &World, engines: usize) {
    let has_links = |host: &TestHost| {
        let all = host.status()?.own_engines;
        let links = all.iter().filter(|it| it.links == 1).count();
        (links == engines).then_some(())
    };
    for host in &world.hosts {
        eventually("links", || has_links(host));
    }
}

#[test]
fn connections_are_spread_over_the_engines_of_both() {
    let world = World::with_engines([3, 3]);
    wait_for_links(&world, 3);
    let mut all: Vec<[End; 2]> = (0..6).map(|_| promoted(&world)).collect();
    for host in &world.hosts {
        wait_for(host, &[Some(2); 3]);
    }
    all.iter_mut().for_each(|ends| exchange(ends, 300_000));
    all.iter_mut().flatten().for_each(End::leave);
    world.hosts.iter().for_each(nothing_is_left);
    for host in &world.hosts {
        wait_for(host, &[Some(0); 3]);
    }
}

#[test]
fn daemons_with_different_numbers_of_engines_use_those_that_both_have() {
    for engines in [[1, 3], [3, 1], [2, 3]] {
        let world = World::with_engines(engines);
        let both = engines[0].min(engines[1]);
        wait_for_links(&world, both);
        let mut all: Vec<[End; 2]> = (0..2 * both).map(|_| promoted(&world)).collect();
        for (host, count) in world.hosts.iter().zip(engines) {
            let of = |engine| Some(if engine < both { 2 } else { 0 });
            wait_for(host, &(0..count).map(of).collect::<Vec<_>>());
        }
        all.iter_mut().for_each(|ends| exchange(ends, 100_000));
    }
}

/// The thread of an engine is gone without a word to anybody.
#[test]
fn what_an_ended_engine_had_is_frozen_and_comes_to_another() {
    let world = World::with_engines([2, 2]);
    wait_for_links(&world, 2);
    let mut first = promoted(&world);
    let mut second = promoted(&world);
    exchange(&mut second, 100_000);
    for host in &world.hosts {
        wait_for(host, &[Some(1), Some(1)]);
    }
    world.hosts[0].signal(Signal::USR1);
    wait_for(&world.hosts[0], &[Some(1), None]);
    let are_frozen = [&first[0], &second[0]].map(End::is_frozen);
    assert_ne!(are_frozen[0], are_frozen[1]);
    let (lost, kept) = match are_frozen[1] {
        true => (&mut second, &mut first),
        false => (&mut first, &mut second),
    };
    exchange(kept, 100_000);
    lost.iter_mut().for_each(End::let_go);
    show_and_promote(lost, 2);
    for (host, one) in world.hosts.iter().zip([None, Some(0)]) {
        wait_for(host, &[Some(2), one]);
    }
    exchange(lost, 100_000);
    exchange(kept, 100_000);
}

/// Nobody tells the other daemon, and nothing is under way that would miss it.
#[test]
fn the_end_of_an_engine_without_connections_is_found_out() {
    let world = World::with_engines([2, 2]);
    wait_for_links(&world, 2);
    world.hosts[1].signal(Signal::USR1);
    wait_for(&world.hosts[1], &[Some(0), None]);
    let [near, far] = streams(&world);
    let mut a = End::new(&world.hosts[0], near, true);
    let mut b = End::new(&world.hosts[1], far, false);
    [&a, &b].iter().for_each(|end| end.show());
    [&mut a, &mut b].into_iter().for_each(End::take_claim);
    a.propose(1);
    a.wait_until_refused(1);
    eventually("that the link is given up", || {
        let engines = world.hosts[0].status()?.own_engines;
        (engines[1].links == 0).then_some(())
    });
    for _ in 0..2 {
        exchange(&mut promoted(&world), 1_000);
    }
}

#[test]
fn a_daemon_that_stops_freezes_what_its_threads_have() {
    let mut world = World::with_engines([2, 2]);
    wait_for_links(&world, 2);
    let ends = [promoted(&world), promoted(&world)];
    world.hosts[1].signal(Signal::TERM);
    world.hosts[1].wait();
    for end in ends.iter().flatten() {
        end.wait_until_frozen();
    }
}
