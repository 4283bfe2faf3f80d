//! Messages, alone and many at once.

use std::ffi::{c_int, c_uint};

use libc::{iovec, mmsghdr, msghdr, ssize_t, timespec};

use crate::Case;
use crate::scene::{Scene, call};

pub const CASES: &[Case] = &[
    ("sendmsg", sendmsg),
    ("recvmsg", recvmsg),
    ("sendmmsg", sendmmsg),
    ("recvmmsg", recvmmsg),
];

fn piece(bytes: &mut [u8]) -> iovec {
    iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }
}

fn message(list: &mut [iovec]) -> msghdr {
    // SAFETY: all zero is a message without name and control data.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = list.as_mut_ptr();
    message.msg_iovlen = list.len();
    message
}

fn sendmsg(scene: &mut Scene, name: &'static str) {
    let (mut one, mut two) = (*b"one", *b"two");
    let mut list = [piece(&mut one), piece(&mut two)];
    let message = message(&mut list);
    call!(
        scene,
        name,
        fn(c_int, *const msghdr, c_int) -> ssize_t,
        scene.a,
        &raw const message,
        0
    );
    scene.drain(6);
    call!(
        scene,
        name,
        fn(c_int, *const msghdr, c_int) -> ssize_t,
        scene.a,
        std::ptr::null::<msghdr>(),
        0
    );
}

fn recvmsg(scene: &mut Scene, name: &'static str) {
    scene.feed(b"a message");
    let (mut one, mut two) = ([0; 3], [0; 20]);
    let mut list = [piece(&mut one), piece(&mut two)];
    let mut message = message(&mut list);
    let mut control = [0_u8; 64];
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = control.len();
    for flags in [libc::MSG_PEEK, libc::MSG_CMSG_CLOEXEC, libc::MSG_DONTWAIT] {
        call!(
            scene,
            name,
            fn(c_int, *mut msghdr, c_int) -> ssize_t,
            scene.b,
            &raw mut message,
            flags
        );
        scene.note(
            "header",
            (
                message.msg_namelen,
                message.msg_controllen,
                message.msg_flags,
            ),
        );
    }
    scene.note("got", (one, &two[..6]));
}

fn sendmmsg(scene: &mut Scene, name: &'static str) {
    let (mut one, mut two) = (*b"one", *b"two");
    let (mut first, mut second) = ([piece(&mut one)], [piece(&mut two)]);
    let mut many = [&mut first, &mut second].map(|list| mmsghdr {
        msg_hdr: message(list),
        msg_len: 0,
    });
    call!(
        scene,
        name,
        fn(c_int, *mut mmsghdr, c_uint, c_int) -> c_int,
        scene.a,
        many.as_mut_ptr(),
        2,
        0
    );
    scene.note("lengths", many.map(|entry| entry.msg_len));
    scene.drain(6);
}

fn recvmmsg(scene: &mut Scene, name: &'static str) {
    scene.feed(b"onetwo");
    let (mut one, mut two, mut three) = ([0; 3], [0; 3], [0; 3]);
    let mut lists = [[piece(&mut one)], [piece(&mut two)], [piece(&mut three)]];
    let mut many = lists.each_mut().map(|list| mmsghdr {
        msg_hdr: message(list),
        msg_len: 0,
    });
    let mut time = timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    call!(
        scene,
        name,
        fn(c_int, *mut mmsghdr, c_uint, c_int, *mut timespec) -> c_int,
        scene.b,
        many.as_mut_ptr(),
        3,
        libc::MSG_WAITFORONE,
        &raw mut time
    );
    scene.note("lengths", many.map(|entry| entry.msg_len));
    scene.note("got", (one, two, three));
}
