//! A child of fork has no part in its parent's groups, and leaves them alone.

use std::os::fd::{AsFd, AsRawFd};

use ulsock_native::group::{GroupError, Options};

use super::help::{members, message, service};

/// Runs this in a child: whether it says yes.
fn in_child(run: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs only this and ends, without the parent's ends of anything.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above. A child that hangs is killed.
        unsafe {
            libc::alarm(10);
            libc::_exit(i32::from(!run()));
        }
    }
    assert!(child > 0);
    let mut status = -1;
    // SAFETY: the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status == 0
}

fn is_readable(fd: &impl AsFd) -> bool {
    let mut fd = libc::pollfd {
        fd: fd.as_fd().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one that lives during the call.
    unsafe { libc::poll(&raw mut fd, 1, 0) == 1 }
}

fn is_forked<T>(result: &Result<T, GroupError>) -> bool {
    matches!(result, Err(GroupError::Forked))
}

#[test]
fn a_child_has_no_part() {
    let mut all = members(&service(), 2, Options::default());
    let group = &mut all[0];
    assert!(in_child(|| {
        let sender = group.sender();
        is_forked(&sender.try_send(b"x"))
            && is_forked(&sender.send(b"x"))
            && is_forked(&sender.flush())
            && sender.members().is_empty()
            && is_forked(&group.receiver().try_recv(&mut []))
            && is_forked(&group.recv(&mut []))
    }));
    assert_eq!(group.members().len(), 1);
}

/// What has rung for the parent still has.
#[test]
fn a_child_does_not_take_its_parents_rings() {
    let mut all = members(&service(), 2, Options::default());
    all[0].receiver().rest();
    all[1].send(b"hello").expect("sent");
    assert!(is_readable(all[0].receiver()));
    assert!(in_child(|| {
        all[0].receiver().rest();
        true
    }));
    assert!(is_readable(all[0].receiver()));
    assert_eq!(message(&mut all[0]).1, b"hello");
}
