//! Birth and death of sockets and numbers.

use std::ffi::{c_int, c_uint};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, RawFd};

use libc::{sockaddr, sockaddr_in, socklen_t};

use crate::Case;
use crate::scene::{Scene, call, read_some, symbol, write};

pub const CASES: &[Case] = &[
    ("socket", socket),
    ("socketpair", socketpair),
    ("bind", bind),
    ("listen", listen),
    ("accept", accept),
    ("accept4", accept4),
    ("connect", connect),
    ("__connect", connect),
    ("shutdown", shutdown),
    ("close", close),
    ("__close", close),
    ("mq_close", close),
    ("close_range", close_range),
    ("closefrom", closefrom),
    ("dup", dup),
    ("dup2", dup2),
    ("__dup2", dup2),
    ("dup3", dup3),
];

const ADDRESS_SIZE: socklen_t = size_of::<sockaddr_in>() as socklen_t;

fn address(port: u16) -> sockaddr_in {
    // SAFETY: all zero is an address.
    let mut address: sockaddr_in = unsafe { std::mem::zeroed() };
    address.sin_family = libc::AF_INET as u16;
    address.sin_port = port.to_be();
    address.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
    address
}

fn listener() -> (TcpListener, sockaddr_in) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = listener.local_addr().expect("address").port();
    (listener, address(port))
}

fn fresh() -> RawFd {
    // SAFETY: plain integers.
    unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) }
}

fn connected(to: &sockaddr_in) -> RawFd {
    let fd = fresh();
    // SAFETY: an address of this size.
    let result = unsafe { libc::connect(fd, (&raw const *to).cast(), ADDRESS_SIZE) };
    assert_eq!(result, 0);
    fd
}

/// Two more ends talk, often enough to be accelerated, and are closed.
fn talk(scene: &mut Scene, one: RawFd, other: RawFd) {
    for _ in 0..40 {
        for (from, to) in [(one, other), (other, one)] {
            write(from, b"talk");
            assert_eq!(read_some(to, 4), b"talk");
        }
    }
    scene.note("talked", ());
    for fd in [one, other] {
        // SAFETY: plain integers.
        unsafe { libc::close(fd) };
    }
}

fn socket(scene: &mut Scene, name: &'static str) {
    let (listener, to) = listener();
    let fd = call!(
        scene,
        name,
        fn(c_int, c_int, c_int) -> c_int,
        libc::AF_INET,
        libc::SOCK_STREAM,
        0
    );
    // SAFETY: an address of this size.
    unsafe { libc::connect(fd, (&raw const to).cast(), ADDRESS_SIZE) };
    let (other, _) = listener.accept().expect("accept");
    talk(scene, fd, std::os::fd::IntoRawFd::into_raw_fd(other));
    let udp = call!(
        scene,
        name,
        fn(c_int, c_int, c_int) -> c_int,
        libc::AF_INET,
        libc::SOCK_DGRAM,
        0
    );
    // SAFETY: plain integers.
    unsafe { libc::close(udp) };
    call!(scene, name, fn(c_int, c_int, c_int) -> c_int, 77, 0, 0);
}

fn socketpair(scene: &mut Scene, name: &'static str) {
    let mut pair = [0; 2];
    call!(
        scene,
        name,
        fn(c_int, c_int, c_int, *mut c_int) -> c_int,
        libc::AF_UNIX,
        libc::SOCK_STREAM,
        0,
        pair.as_mut_ptr()
    );
    talk(scene, pair[0], pair[1]);
    call!(
        scene,
        name,
        fn(c_int, c_int, c_int, *mut c_int) -> c_int,
        libc::AF_INET,
        libc::SOCK_STREAM,
        0,
        pair.as_mut_ptr()
    );
}

fn bind(scene: &mut Scene, name: &'static str) {
    let any = address(0);
    for fd in [fresh(), scene.a] {
        call!(
            scene,
            name,
            fn(c_int, *const sockaddr, socklen_t) -> c_int,
            fd,
            &raw const any,
            ADDRESS_SIZE
        );
    }
}

fn listen(scene: &mut Scene, name: &'static str) {
    for fd in [fresh(), scene.a] {
        call!(scene, name, fn(c_int, c_int) -> c_int, fd, 5);
    }
}

fn accept(scene: &mut Scene, name: &'static str) {
    let (listener, to) = listener();
    let one = connected(&to);
    let (mut from, mut len) = (address(0), ADDRESS_SIZE);
    let other = call!(
        scene,
        name,
        fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int,
        listener.as_raw_fd(),
        &raw mut from,
        &raw mut len
    );
    scene.note("from", (len, from.sin_family));
    talk(scene, one, other);
    call!(
        scene,
        name,
        fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int,
        scene.b,
        std::ptr::null_mut::<sockaddr>(),
        std::ptr::null_mut::<socklen_t>()
    );
}

fn accept4(scene: &mut Scene, name: &'static str) {
    let (listener, to) = listener();
    let one = connected(&to);
    let (mut from, mut len) = ([0_u8; 4], 4 as socklen_t);
    let other = call!(
        scene,
        name,
        fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int,
        listener.as_raw_fd(),
        from.as_mut_ptr(),
        &raw mut len,
        libc::SOCK_CLOEXEC
    );
    scene.note("from", (len, from[0]));
    // SAFETY: plain integers.
    scene.note("flags", unsafe { libc::fcntl(other, libc::F_GETFD) });
    talk(scene, one, other);
    call!(
        scene,
        name,
        fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int,
        scene.b,
        std::ptr::null_mut::<sockaddr>(),
        std::ptr::null_mut::<socklen_t>(),
        0
    );
}

fn connect(scene: &mut Scene, name: &'static str) {
    let (listener, to) = listener();
    let one = fresh();
    call!(
        scene,
        name,
        fn(c_int, *const sockaddr, socklen_t) -> c_int,
        one,
        &raw const to,
        ADDRESS_SIZE
    );
    let (other, _) = listener.accept().expect("accept");
    talk(scene, one, std::os::fd::IntoRawFd::into_raw_fd(other));
    call!(
        scene,
        name,
        fn(c_int, *const sockaddr, socklen_t) -> c_int,
        scene.a,
        &raw const to,
        ADDRESS_SIZE
    );
    drop(listener);
    call!(
        scene,
        name,
        fn(c_int, *const sockaddr, socklen_t) -> c_int,
        fresh(),
        &raw const to,
        ADDRESS_SIZE
    );
}

fn shutdown(scene: &mut Scene, name: &'static str) {
    call!(scene, name, fn(c_int, c_int) -> c_int, scene.a, 77);
    scene.feed(b"last");
    call!(
        scene,
        name,
        fn(c_int, c_int) -> c_int,
        scene.a,
        libc::SHUT_WR
    );
    scene.drain(4);
    scene.note("write", write(scene.a, b"too late") > 0);
    call!(
        scene,
        name,
        fn(c_int, c_int) -> c_int,
        scene.b,
        libc::SHUT_RDWR
    );
    scene.ended = true;
}

fn close(scene: &mut Scene, name: &'static str) {
    scene.feed(b"last");
    for _ in 0..2 {
        call!(scene, name, fn(c_int) -> c_int, scene.a);
    }
    scene.note("write", write(scene.a, b"closed"));
    scene.drain(4);
    scene.ended = true;
}

/// Not the standard three, nor what the case needs itself.
fn close_range(scene: &mut Scene, name: &'static str) {
    scene.feed(b"last");
    for flags in [77, 0] {
        call!(
            scene,
            name,
            fn(c_uint, c_uint, c_int) -> c_int,
            scene.a,
            scene.a,
            flags
        );
    }
    scene.note("write", write(scene.a, b"closed"));
    scene.drain(4);
    call!(scene, name, fn(c_uint, c_uint, c_int) -> c_int, 5, 3, 0);
    scene.ended = true;
}

fn closefrom(scene: &mut Scene, name: &'static str) {
    scene.feed(b"last");
    // SAFETY: plain integers.
    let reader = unsafe { libc::dup2(scene.b, 50) };
    let closefrom: unsafe extern "C" fn(c_int) = symbol(name);
    // SAFETY: libc's function; what it closes is not used again.
    unsafe { closefrom(51) };
    if reader >= 0 {
        scene.drain(4);
    }
    // SAFETY: as above.
    unsafe { closefrom(3) };
    // SAFETY: plain integers.
    scene.note(
        "open",
        (3..2000)
            .filter(|fd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } >= 0)
            .count(),
    );
    scene.ended = true;
}

/// The duplicate works like the original, and its end is not the original's.
fn through(scene: &mut Scene, fd: RawFd) {
    write(fd, b"through");
    scene.drain(7);
    // SAFETY: plain integers.
    unsafe { libc::close(fd) };
}

fn dup(scene: &mut Scene, name: &'static str) {
    let fd = call!(scene, name, fn(c_int) -> c_int, scene.a);
    through(scene, fd);
}

fn dup2(scene: &mut Scene, name: &'static str) {
    call!(scene, name, fn(c_int, c_int) -> c_int, scene.a, scene.a);
    for _ in 0..2 {
        call!(scene, name, fn(c_int, c_int) -> c_int, scene.a, 60);
    }
    through(scene, 60);
    call!(scene, name, fn(c_int, c_int) -> c_int, scene.a, -1);
}

fn dup3(scene: &mut Scene, name: &'static str) {
    call!(
        scene,
        name,
        fn(c_int, c_int, c_int) -> c_int,
        scene.a,
        scene.a,
        0
    );
    call!(
        scene,
        name,
        fn(c_int, c_int, c_int) -> c_int,
        scene.a,
        60,
        libc::O_CLOEXEC
    );
    through(scene, 60);
    call!(
        scene,
        name,
        fn(c_int, c_int, c_int) -> c_int,
        scene.a,
        60,
        77
    );
}
