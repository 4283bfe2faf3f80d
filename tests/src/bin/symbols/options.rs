//! Questions and settings.

use std::ffi::{c_int, c_ulong, c_void};

use libc::{sockaddr, socklen_t, timeval};

use crate::Case;
use crate::scene::{Scene, call, read_some, write};

pub const CASES: &[Case] = &[
    ("fcntl", fcntl),
    ("fcntl64", fcntl),
    ("__fcntl", fcntl),
    ("ioctl", ioctl),
    ("getsockopt", getsockopt),
    ("setsockopt", setsockopt),
    ("getsockname", getname),
    ("getpeername", getname),
    ("sockatmark", sockatmark),
    ("isfdtype", isfdtype),
];

fn fcntl(scene: &mut Scene, name: &'static str) {
    let flags = call!(
        scene,
        name,
        fn(c_int, c_int, c_ulong) -> c_int,
        scene.b,
        libc::F_GETFL,
        0
    );
    for wanted in [flags | libc::O_NONBLOCK, flags & !libc::O_NONBLOCK] {
        call!(
            scene,
            name,
            fn(c_int, c_int, c_ulong) -> c_int,
            scene.b,
            libc::F_SETFL,
            wanted
        );
        let now = call!(
            scene,
            name,
            fn(c_int, c_int, c_ulong) -> c_int,
            scene.b,
            libc::F_GETFL,
            0
        );
        if now >= 0 && now & libc::O_NONBLOCK != 0 {
            // SAFETY: room for one byte.
            scene.note("nothing there", unsafe {
                libc::read(scene.b, [0_u8; 1].as_mut_ptr().cast(), 1)
            });
        }
    }
    for command in [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC] {
        let fd = call!(
            scene,
            name,
            fn(c_int, c_int, c_ulong) -> c_int,
            scene.a,
            command,
            70
        );
        write(fd, b"duplicate");
        scene.drain(9);
        call!(
            scene,
            name,
            fn(c_int, c_int, c_ulong) -> c_int,
            fd,
            libc::F_GETFD,
            0
        );
        // SAFETY: plain integers.
        unsafe { libc::close(fd) };
    }
}

fn ioctl(scene: &mut Scene, name: &'static str) {
    let mut count: c_int = 0;
    scene.feed(b"bytes");
    call!(
        scene,
        name,
        fn(c_int, c_ulong, *mut c_int) -> c_int,
        scene.b,
        libc::FIONREAD,
        &raw mut count
    );
    scene.note("readable", count);
    scene.drain(5);
    for mut on in [1, 0] {
        call!(
            scene,
            name,
            fn(c_int, c_ulong, *mut c_int) -> c_int,
            scene.b,
            libc::FIONBIO,
            &raw mut on
        );
    }
    call!(
        scene,
        name,
        fn(c_int, c_ulong, *mut c_int) -> c_int,
        scene.b,
        0xdead,
        std::ptr::null_mut::<c_int>()
    );
}

fn getsockopt(scene: &mut Scene, name: &'static str) {
    let options = [
        (libc::SOL_SOCKET, libc::SO_TYPE),
        (libc::SOL_SOCKET, libc::SO_ERROR),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY),
        (77, 77),
    ];
    for (level, option) in options {
        let (mut value, mut len) = (0, size_of::<c_int>() as socklen_t);
        call!(
            scene,
            name,
            fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
            scene.a,
            level,
            option,
            &raw mut value,
            &raw mut len
        );
        scene.note("option", (value, len));
    }
}

fn setsockopt(scene: &mut Scene, name: &'static str) {
    let (on, time) = (
        1,
        timeval {
            tv_sec: 0,
            tv_usec: 20_000,
        },
    );
    let on: *const c_void = (&raw const on).cast::<c_int>().cast();
    call!(
        scene,
        name,
        fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
        scene.a,
        libc::IPPROTO_TCP,
        libc::TCP_NODELAY,
        on,
        4
    );
    call!(
        scene,
        name,
        fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
        scene.a,
        77,
        77,
        on,
        4
    );
    call!(
        scene,
        name,
        fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
        scene.b,
        libc::SOL_SOCKET,
        libc::SO_RCVTIMEO,
        &raw const time,
        size_of::<timeval>()
    );
    if scene.kind.is_stream() {
        // SAFETY: room for one byte.
        scene.note("timed out", unsafe {
            libc::read(scene.b, [0_u8; 1].as_mut_ptr().cast(), 1)
        });
    }
}

fn getname(scene: &mut Scene, name: &'static str) {
    let (mut address, mut len) = ([0_u8; 64], 64 as socklen_t);
    call!(
        scene,
        name,
        fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int,
        scene.a,
        address.as_mut_ptr(),
        &raw mut len
    );
    scene.note("name", (len, address[0], &address[4..8]));
}

fn sockatmark(scene: &mut Scene, name: &'static str) {
    scene.feed(b"bytes");
    call!(scene, name, fn(c_int) -> c_int, scene.b);
    scene.note("read", read_some(scene.b, 5).len());
    call!(scene, name, fn(c_int) -> c_int, scene.b);
}

fn isfdtype(scene: &mut Scene, name: &'static str) {
    call!(
        scene,
        name,
        fn(c_int, c_int) -> c_int,
        scene.a,
        libc::S_IFSOCK
    );
}
