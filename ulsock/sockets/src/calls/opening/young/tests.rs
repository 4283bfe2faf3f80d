//! Young connections and forks.

use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::net::UnixStream;

use crate::calls::api;
use crate::calls::opening::leave_young_to_parent;
use crate::runtime::way::Way;
use crate::state::table::{self, Slot};
use crate::state::young::{self, Entered};
use crate::testing::{Fd, Program, World};

fn pair() -> [RawFd; 2] {
    let (one, other) = UnixStream::pair().expect("a pair");
    let pair = [one, other].map(IntoRawFd::into_raw_fd);
    api::pair_opened(pair, libc::AF_UNIX, libc::SOCK_STREAM, 0);
    pair
}

fn close(program: Program, pair: [RawFd; 2]) {
    pair.into_iter().for_each(|fd| program.close(Fd(fd)));
}

/// What is born while a fork is under way has a record, in which the child is counted.
#[test]
fn nothing_is_young_that_a_fork_may_copy() {
    let world = World::plain();
    let (during, after) = world.client.run(|| {
        young::before_fork();
        let during = pair();
        young::after_fork();
        (during, pair())
    });
    world.client.run(|| {
        assert!(matches!(table::get(during[0]), Slot::Record(_)));
        assert!(matches!(table::get(after[0]), Slot::Young(_)));
    });
    close(world.client, during);
    close(world.client, after);
}

/// The child has neither the threads that were inside nor anybody who counts what it moves.
#[test]
fn what_was_young_is_the_kernels_in_a_child() {
    let world = World::plain();
    let before = world.client.run(pair);
    world.client.run(|| {
        let [fd, _] = before;
        let Slot::Young(life) = table::get(fd) else {
            panic!("it is young");
        };
        let inside = young::enter(fd, life, Way::In);
        assert!(matches!(inside, Entered::Young(_)));
        leave_young_to_parent();
        assert_eq!(before.map(table::get), [Slot::Foreign; 2]);
        assert!(!young::is_inside(fd, Way::In));
    });
    close(world.client, before);
}
