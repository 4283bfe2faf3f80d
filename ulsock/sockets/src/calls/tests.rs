//! Calls that change what a number means.

use rustix::io::Errno;

use crate::calls::api;
use crate::state::table::{self, Slot};
use crate::testing::{Fd, World};

#[test]
fn a_closed_number_means_nothing() {
    let world = World::promoted();
    world.client.close(world.near);
    let slot = world.client.run(|| table::get(world.near.0));
    assert_eq!(slot, Slot::Foreign);
    assert_eq!(world.server.receive(world.far, 9), Ok(Vec::new()));
}

/// As in the kernel, bytes that nobody has read reset the connection.
#[test]
fn closing_with_unread_bytes_resets() {
    let world = World::promoted();
    assert_eq!(world.server.send(world.far, b"unread"), Ok(6));
    world.client.close(world.near);
    assert_eq!(world.server.receive(world.far, 9), Err(Errno::CONNRESET));
}

#[test]
fn a_duplicate_is_the_same_connection() {
    let world = World::promoted();
    // SAFETY: the number is open as long as the test uses it.
    let near = unsafe { std::os::fd::BorrowedFd::borrow_raw(world.near.0) };
    let twin = rustix::io::dup(near).expect("a duplicate");
    let twin = Fd(std::os::fd::IntoRawFd::into_raw_fd(twin));
    world.client.run(|| api::duped(world.near.0, twin.0));
    world.client.close(world.near);
    assert_eq!(world.client.send(twin, b"x"), Ok(1));
    assert_eq!(world.server.receive(world.far, 9), Ok(b"x".to_vec()));
    world.client.close(twin);
    assert_eq!(world.server.receive(world.far, 9), Ok(Vec::new()));
}

#[test]
fn our_own_numbers_do_not_exist_for_the_program() {
    let world = World::promoted();
    let own = world.client.run(|| {
        let mut all = table::all().filter(|(_, slot)| *slot == Slot::Internal);
        all.next().expect("a bell at least").0
    });
    assert_eq!(world.client.send(Fd(own), b"x"), Err(Errno::BADF));
    assert_eq!(world.client.receive(Fd(own), 1), Err(Errno::BADF));
}
