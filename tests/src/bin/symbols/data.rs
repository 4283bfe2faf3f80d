//! Bytes in and out.

use std::ffi::{c_int, c_void};

use libc::{iovec, off_t, size_t, sockaddr, socklen_t, ssize_t};

use crate::Case;
use crate::scene::{Scene, call};

pub const CASES: &[Case] = &[
    ("read", read),
    ("__read", read),
    ("__read_chk", read_checked),
    ("readv", readv),
    ("recv", recv),
    ("__recv_chk", recv_checked),
    ("recvfrom", recvfrom),
    ("__recvfrom_chk", recvfrom_checked),
    ("preadv2", preadv2),
    ("preadv64v2", preadv2),
    ("write", write),
    ("__write", write),
    ("writev", writev),
    ("send", send),
    ("__send", send),
    ("sendto", sendto),
    ("pwritev2", pwritev2),
    ("pwritev64v2", pwritev2),
    ("sendfile", sendfile),
    ("sendfile64", sendfile),
    ("eventfd_read", eventfd_read),
    ("eventfd_write", eventfd_write),
    ("pread", pread),
    ("pread64", pread),
    ("__pread64", pread),
    ("pwrite", pwrite),
    ("pwrite64", pwrite),
    ("__pwrite64", pwrite),
    ("preadv", preadv),
    ("preadv64", preadv),
    ("pwritev", preadv),
    ("pwritev64", preadv),
    ("copy_file_range", copy_file_range),
];

/// Three pieces of a buffer, one of them empty.
fn pieces(bytes: &mut [u8]) -> [iovec; 3] {
    let (first, rest) = bytes.split_at_mut(2);
    let piece = |part: &mut [u8]| iovec {
        iov_base: part.as_mut_ptr().cast(),
        iov_len: part.len(),
    };
    [piece(first), piece(&mut []), piece(rest)]
}

/// Feeds the stream and lets `receive` take it in two steps.
fn receives(scene: &mut Scene, mut receive: impl FnMut(&mut Scene, &mut [u8; 5])) {
    scene.feed(b"some bytes");
    for _ in 0..2 {
        let mut room = *b".....";
        receive(scene, &mut room);
        scene.note("got", String::from_utf8_lossy(&room).into_owned());
    }
}

/// Lets `send` write five bytes and reads them.
fn sends(scene: &mut Scene, mut send: impl FnMut(&mut Scene, &mut [u8; 5])) {
    let mut bytes = *b"hello";
    send(scene, &mut bytes);
    scene.drain(5);
}

fn read(scene: &mut Scene, name: &'static str) {
    receives(scene, |scene, room| {
        call!(
            scene,
            name,
            fn(c_int, *mut c_void, size_t) -> ssize_t,
            scene.b,
            room.as_mut_ptr(),
            5
        );
    });
}

fn read_checked(scene: &mut Scene, name: &'static str) {
    receives(scene, |scene, room| {
        call!(
            scene,
            name,
            fn(c_int, *mut c_void, size_t, size_t) -> ssize_t,
            scene.b,
            room.as_mut_ptr(),
            5,
            5
        );
    });
}

fn readv(scene: &mut Scene, name: &'static str) {
    receives(scene, |scene, room| {
        let list = pieces(room);
        call!(
            scene,
            name,
            fn(c_int, *const iovec, c_int) -> ssize_t,
            scene.b,
            list.as_ptr(),
            3
        );
    });
    call!(
        scene,
        name,
        fn(c_int, *const iovec, c_int) -> ssize_t,
        scene.b,
        pieces(&mut [0; 5]).as_ptr(),
        -1
    );
}

fn recv(scene: &mut Scene, name: &'static str) {
    receives(scene, |scene, room| {
        for flags in [libc::MSG_PEEK, 0] {
            call!(
                scene,
                name,
                fn(c_int, *mut c_void, size_t, c_int) -> ssize_t,
                scene.b,
                room.as_mut_ptr(),
                5,
                flags
            );
        }
    });
    call!(
        scene,
        name,
        fn(c_int, *mut c_void, size_t, c_int) -> ssize_t,
        scene.b,
        [0_u8; 5].as_mut_ptr(),
        5,
        libc::MSG_DONTWAIT
    );
}

fn recv_checked(scene: &mut Scene, name: &'static str) {
    receives(scene, |scene, room| {
        call!(
            scene,
            name,
            fn(c_int, *mut c_void, size_t, size_t, c_int) -> ssize_t,
            scene.b,
            room.as_mut_ptr(),
            5,
            5,
            0
        );
    });
}

fn recvfrom(scene: &mut Scene, name: &'static str) {
    receives(scene, |scene, room| {
        let mut address = [7_u8; 32];
        let mut len: socklen_t = 32;
        call!(
            scene,
            name,
            fn(c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t,
            scene.b,
            room.as_mut_ptr(),
            5,
            0,
            address.as_mut_ptr(),
            &raw mut len
        );
        scene.note("from", (len, address[0]));
    });
}

fn recvfrom_checked(scene: &mut Scene, name: &'static str) {
    receives(scene, |scene, room| {
        call!(
            scene,
            name,
            fn(c_int, *mut c_void, size_t, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t,
            scene.b,
            room.as_mut_ptr(),
            5,
            5,
            0,
            std::ptr::null_mut::<sockaddr>(),
            std::ptr::null_mut::<socklen_t>()
        );
    });
}

fn preadv2(scene: &mut Scene, name: &'static str) {
    receives(scene, |scene, room| {
        let list = pieces(room);
        for offset in [3, -1] {
            call!(
                scene,
                name,
                fn(c_int, *const iovec, c_int, off_t, c_int) -> ssize_t,
                scene.b,
                list.as_ptr(),
                3,
                offset,
                0
            );
        }
    });
}

fn write(scene: &mut Scene, name: &'static str) {
    sends(scene, |scene, bytes| {
        call!(
            scene,
            name,
            fn(c_int, *const c_void, size_t) -> ssize_t,
            scene.a,
            bytes.as_ptr(),
            5
        );
    });
}

fn writev(scene: &mut Scene, name: &'static str) {
    sends(scene, |scene, bytes| {
        let list = pieces(bytes);
        call!(
            scene,
            name,
            fn(c_int, *const iovec, c_int) -> ssize_t,
            scene.a,
            list.as_ptr(),
            3
        );
    });
    call!(
        scene,
        name,
        fn(c_int, *const iovec, c_int) -> ssize_t,
        scene.a,
        pieces(&mut [0; 5]).as_ptr(),
        1025
    );
}

fn send(scene: &mut Scene, name: &'static str) {
    for flags in [0, libc::MSG_NOSIGNAL, libc::MSG_DONTWAIT] {
        sends(scene, |scene, bytes| {
            call!(
                scene,
                name,
                fn(c_int, *const c_void, size_t, c_int) -> ssize_t,
                scene.a,
                bytes.as_ptr(),
                5,
                flags
            );
        });
    }
}

fn sendto(scene: &mut Scene, name: &'static str) {
    sends(scene, |scene, bytes| {
        call!(
            scene,
            name,
            fn(c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t,
            scene.a,
            bytes.as_ptr(),
            5,
            0,
            std::ptr::null::<sockaddr>(),
            0
        );
    });
}

fn pwritev2(scene: &mut Scene, name: &'static str) {
    sends(scene, |scene, bytes| {
        let list = pieces(bytes);
        for offset in [3, -1] {
            call!(
                scene,
                name,
                fn(c_int, *const iovec, c_int, off_t, c_int) -> ssize_t,
                scene.a,
                list.as_ptr(),
                3,
                offset,
                0
            );
        }
    });
}

fn sendfile(scene: &mut Scene, name: &'static str) {
    let file = std::fs::File::open("/proc/version").expect("a file");
    let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
    let mut offset: off_t = 2;
    call!(
        scene,
        name,
        fn(c_int, c_int, *mut off_t, size_t) -> ssize_t,
        scene.a,
        fd,
        &raw mut offset,
        3
    );
    call!(
        scene,
        name,
        fn(c_int, c_int, *mut off_t, size_t) -> ssize_t,
        scene.a,
        fd,
        std::ptr::null_mut::<off_t>(),
        5
    );
    scene.note("offset", offset);
    scene.drain(8);
    call!(
        scene,
        name,
        fn(c_int, c_int, *mut off_t, size_t) -> ssize_t,
        scene.a,
        -1,
        std::ptr::null_mut::<off_t>(),
        5
    );
}

fn eventfd_read(scene: &mut Scene, name: &'static str) {
    scene.feed(b"a count!");
    let mut count = 0_u64;
    call!(
        scene,
        name,
        fn(c_int, *mut u64) -> c_int,
        scene.b,
        &raw mut count
    );
    scene.note("count", count.to_ne_bytes());
    // SAFETY: plain integers.
    let event = unsafe { libc::eventfd(5, 0) };
    call!(
        scene,
        name,
        fn(c_int, *mut u64) -> c_int,
        event,
        &raw mut count
    );
    scene.note("count", count);
}

fn eventfd_write(scene: &mut Scene, name: &'static str) {
    call!(
        scene,
        name,
        fn(c_int, u64) -> c_int,
        scene.a,
        u64::from_ne_bytes(*b"a count!")
    );
    scene.drain(8);
}

/// At an offset a stream has nothing: ESPIPE, and no byte is lost.
fn pread(scene: &mut Scene, name: &'static str) {
    scene.feed(b"bytes");
    let mut room = [0_u8; 5];
    for offset in [0, 2, -1] {
        call!(
            scene,
            name,
            fn(c_int, *mut c_void, size_t, off_t) -> ssize_t,
            scene.b,
            room.as_mut_ptr(),
            5,
            offset
        );
    }
    scene.drain(5);
}

fn pwrite(scene: &mut Scene, name: &'static str) {
    for offset in [0, 2, -1] {
        call!(
            scene,
            name,
            fn(c_int, *const c_void, size_t, off_t) -> ssize_t,
            scene.a,
            b"bytes".as_ptr(),
            5,
            offset
        );
    }
}

fn preadv(scene: &mut Scene, name: &'static str) {
    let mut bytes = *b"bytes";
    let list = pieces(&mut bytes);
    for offset in [0, 2, -1] {
        call!(
            scene,
            name,
            fn(c_int, *const iovec, c_int, off_t) -> ssize_t,
            scene.a,
            list.as_ptr(),
            3,
            offset
        );
    }
}

fn copy_file_range(scene: &mut Scene, name: &'static str) {
    let none = std::ptr::null_mut::<off_t>();
    scene.feed(b"bytes");
    call!(
        scene,
        name,
        fn(c_int, *mut off_t, c_int, *mut off_t, size_t, u32) -> ssize_t,
        scene.b,
        none,
        scene.a,
        none,
        5,
        0
    );
    scene.drain(5);
}
