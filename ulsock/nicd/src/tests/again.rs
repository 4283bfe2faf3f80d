//! A daemon is replaced, or an end shown again, before a promotion has come to anything: nobody waits for what would have
//! been said otherwise.

use rustix::process::Signal;

use super::program::{End, meet, streams};
use super::world::{World, eventually};
use super::{exchange, promote};

fn shown(world: &World) -> [End; 2] {
    let [near, far] = streams(world);
    let [one, other] = &world.hosts;
    let mut ends = [End::new(one, near, true), End::new(other, far, false)];
    ends.iter().for_each(End::show);
    ends.iter_mut().for_each(End::take_claim);
    ends
}

/// The daemon of an end is killed, and another takes its place. The end has gone back to the kernel.
fn replace(world: &mut World, number: usize, end: &mut End) {
    world.hosts[number].signal(Signal::KILL);
    world.hosts[number].wait();
    let folder = world.folder.path().to_owned();
    world.hosts[number].start(&folder, "packet");
    world.wait_until_up();
    end.pair = eventually("another daemon", || {
        world.hosts[number].status()?;
        Some(meet(&world.hosts[number]))
    });
    end.let_go();
}

/// B has not answered when A's daemon dies. It has its block still, and is asked by the next one.
#[test]
fn who_was_asked_in_vain_is_asked_again() {
    let mut world = World::new("packet");
    let mut ends = shown(&world);
    ends[0].propose(1);
    ends[1].wait_until_asked(1);
    replace(&mut world, 0, &mut ends[0]);
    ends[0].show();
    ends[0].take_claim();
    promote(&mut ends, 2);
    exchange(&mut ends, 100_000);
}

/// A has given up and is shown again, to the same daemon: B still has its block, and is ready for the new one as well.
#[test]
fn who_is_shown_again_hears_that_the_peer_is_ready() {
    let world = World::new("packet");
    let mut ends = shown(&world);
    ends[0].propose(1);
    ends[1].wait_until_asked(1);
    ends[0].let_go();
    ends[0].show();
    ends[0].take_claim();
    promote(&mut ends, 2);
    exchange(&mut ends, 100_000);
}

/// A has a block, and B's daemon dies before anything is proposed. The link is at rest when B is back.
#[test]
fn a_link_gets_up_for_who_has_a_block() {
    let mut world = World::new("packet");
    let mut ends = shown(&world);
    replace(&mut world, 1, &mut ends[1]);
    for host in &world.hosts {
        host.wait_for("rest", |peer| peer.in_touch && peer.at_rest);
    }
    world.hosts[0].wait_for("A's block", |peer| peer.claimed == 1);
    ends[1].show();
    ends[1].take_claim();
    promote(&mut ends, 1);
    exchange(&mut ends, 100_000);
}
