//! Arguments that change what a symbol does: options, flags and requests. Each scenario says what
//! becomes of an accelerated connection, as the table does for the symbols.

use std::ffi::{c_int, c_ulong, c_void};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::time::{Duration, Instant};

use libc::{iovec, msghdr, socklen_t};

use crate::scene::{Scene, call, read_some, write};

/// A name, what becomes of the connection, and what to do.
pub type Scenario = (&'static str, &'static str, fn(&mut Scene));

pub const SCENARIOS: &[Scenario] = &[
    ("time stamps in control data", "returns", |scene| {
        stamps(scene, libc::SO_TIMESTAMP)
    }),
    ("finer time stamps in control data", "returns", |scene| {
        stamps(scene, libc::SO_TIMESTAMPNS)
    }),
    ("new time stamps in control data", "returns", |scene| {
        stamps(scene, 63)
    }),
    ("flexible time stamps", "returns", |scene| {
        set(scene, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, 0x18);
        stamped(scene, scene.a, scene.b);
    }),
    ("unread bytes in control data", "handled", |scene| {
        set(scene, libc::IPPROTO_TCP, 36, 1);
        stamped(scene, scene.a, scene.b);
    }),
    ("options that are turned off", "handled", |scene| {
        for option in [libc::SO_TIMESTAMP, libc::SO_OOBINLINE, libc::SO_ZEROCOPY] {
            set(scene, libc::SOL_SOCKET, option, 0);
        }
        scene.feed(b"message");
        scene.note("control", receive_control(scene.b));
    }),
    (
        "time stamps inherited from a listener",
        "handled",
        inherited,
    ),
    ("urgent bytes inline", "handled", |scene| {
        set(scene, libc::SOL_SOCKET, libc::SO_OOBINLINE, 1)
    }),
    ("permission for zero copy", "handled", |scene| {
        set(scene, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1)
    }),
    (
        "a protocol on top that does not exist",
        "handled",
        |scene| {
            let name = b"nothing";
            call!(
                scene,
                "setsockopt",
                fn(c_int, c_int, c_int, *const u8, socklen_t) -> c_int,
                scene.b,
                libc::IPPROTO_TCP,
                libc::TCP_ULP,
                name.as_ptr(),
                7
            );
        },
    ),
    ("a filter that passes all", "returns", filter),
    ("peeking at an offset", "returns", peek_offset),
    ("a low-water mark", "handled", low_water),
    ("options that the kernel refuses", "handled", refused),
    ("the counts of TCP_INFO", "handled", tcp_info),
    (
        "the counts of TCP_INFO after a return",
        "returns",
        |scene| {
            tcp_info(scene);
            set(scene, libc::SOL_SOCKET, libc::SO_TIMESTAMP, 1);
            tcp_info(scene);
        },
    ),
    (
        "nothing unsent while the peer does not read",
        "handled",
        unsent,
    ),
    ("control data that is refused", "returns", |scene| {
        sent_control(scene, 77)
    }),
    ("control data that asks for a mark", "returns", |scene| {
        sent_control(scene, libc::SO_MARK)
    }),
    ("the error queue", "handled", |scene| {
        receive(scene, libc::MSG_ERRQUEUE);
    }),
    ("flags that mean nothing", "handled", |scene| {
        scene.feed(b"bytes");
        receive(scene, 0x0010_0000 | libc::MSG_CMSG_CLOEXEC);
    }),
    ("a library that is bound to itself", "returns", |scene| {
        call!(
            scene,
            "dlopen",
            fn(*const u8, c_int) -> *mut c_void,
            c"libm.so.6".as_ptr(),
            libc::RTLD_NOW | libc::RTLD_DEEPBIND
        );
    }),
    (
        "a library by its path that is bound to itself",
        "handled",
        |scene| {
            call!(
                scene,
                "dlopen",
                fn(*const u8, c_int) -> *mut c_void,
                c"/lib/x86_64-linux-gnu/libm.so.6".as_ptr(),
                libc::RTLD_NOW | libc::RTLD_DEEPBIND
            );
        },
    ),
    ("a library in a space of its own", "returns", |scene| {
        call!(
            scene,
            "dlmopen",
            fn(isize, *const u8, c_int) -> *mut c_void,
            -1,
            c"libm.so.6".as_ptr(),
            libc::RTLD_NOW
        );
    }),
    ("signals asked for", "returns", |scene| {
        call!(
            scene,
            "fcntl",
            fn(c_int, c_int, c_int) -> c_int,
            scene.b,
            libc::F_SETFL,
            libc::O_ASYNC
        );
    }),
    ("an owner for signals", "handled", |scene| {
        call!(
            scene,
            "fcntl",
            fn(c_int, c_int, c_int) -> c_int,
            scene.b,
            libc::F_SETOWN,
            std::process::id()
        );
    }),
    ("a mark that is not there", "handled", |scene| {
        let mut at_mark: c_int = 7;
        call!(
            scene,
            "ioctl",
            fn(c_int, c_ulong, *mut c_int) -> c_int,
            scene.b,
            0x8905,
            &raw mut at_mark
        );
        scene.note("mark", at_mark);
    }),
];

fn set(scene: &mut Scene, level: c_int, option: c_int, value: c_int) {
    call!(
        scene,
        "setsockopt",
        fn(c_int, c_int, c_int, *const c_int, socklen_t) -> c_int,
        scene.b,
        level,
        option,
        &raw const value,
        4
    );
}

/// Sends and receives messages until one comes with control data, and notes that one. The kernel
/// begins to stamp packets a moment after it was asked to (net_enable_timestamp).
fn stamped(scene: &mut Scene, from: c_int, to: c_int) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        write(from, b"message");
        if let Some(found) = receive_control(to) {
            return scene.note("control", found);
        }
    }
    scene.note("control", ());
}

/// Receives a message with room for control data; the bytes, the header, and the first of that data.
fn receive_control(fd: c_int) -> Option<(String, [usize; 5])> {
    let (mut bytes, mut control) = ([0_u8; 7], [0_u64; 32]);
    let mut piece = iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: 7,
    };
    // SAFETY: all zero is a message without name and control data; the rest lives across the call.
    unsafe {
        let mut header: msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut piece;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        let got = libc::recvmsg(fd, &mut header, libc::MSG_WAITALL);
        assert_eq!((got, &bytes), (7, b"message"));
        let first = libc::CMSG_FIRSTHDR(&header).as_ref()?;
        let (level, kind) = (first.cmsg_level as usize, first.cmsg_type as usize);
        let flags = header.msg_flags as usize;
        let header = [header.msg_controllen, flags, first.cmsg_len, level, kind];
        Some((String::from_utf8_lossy(&bytes).into_owned(), header))
    }
}

fn receive(scene: &mut Scene, flags: c_int) {
    let mut room = [0_u8; 5];
    call!(
        scene,
        "recv",
        fn(c_int, *mut c_void, usize, c_int) -> isize,
        scene.b,
        room.as_mut_ptr(),
        5,
        flags
    );
    scene.note("got", room);
}

fn stamps(scene: &mut Scene, option: c_int) {
    set(scene, libc::SOL_SOCKET, option, 1);
    stamped(scene, scene.a, scene.b);
}

/// Another connection, whose listener had the option; it never leaves the kernel.
fn inherited(scene: &mut Scene) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let fd = listener.as_raw_fd();
    let on: c_int = 1;
    // SAFETY: an option of this size.
    unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMP,
            (&raw const on).cast(),
            4,
        )
    };
    let near =
        std::net::TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
    let (near, far) = (
        near.into_raw_fd(),
        listener.accept().expect("accept").0.into_raw_fd(),
    );
    for _ in 0..20 {
        write(near, b"message");
        assert_eq!(read_some(far, 7).len(), 7);
        write(far, b"message");
        assert_eq!(read_some(near, 7).len(), 7);
    }
    stamped(scene, near, far);
}

fn filter(scene: &mut Scene) {
    // A BPF program of one instruction: return all of the packet.
    let mut code = libc::sock_filter {
        code: 6,
        jt: 0,
        jf: 0,
        k: u32::MAX,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut code,
    };
    call!(
        scene,
        "setsockopt",
        fn(c_int, c_int, c_int, *const libc::sock_fprog, socklen_t) -> c_int,
        scene.b,
        libc::SOL_SOCKET,
        libc::SO_ATTACH_FILTER,
        &raw const program,
        size_of::<libc::sock_fprog>()
    );
}

fn peek_offset(scene: &mut Scene) {
    set(scene, libc::SOL_SOCKET, libc::SO_PEEK_OFF, 0);
    scene.feed(b"somebytes");
    scene.note("arrived", read_some_peek(scene.b));
    receive(scene, 0);
    scene.drain(4);
    set(scene, libc::SOL_SOCKET, libc::SO_PEEK_OFF, -1);
}

/// Waits for bytes without taking them.
fn read_some_peek(fd: c_int) -> c_int {
    let mut entry = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry.
    unsafe { libc::poll(&mut entry, 1, 5000) }
}

fn low_water(scene: &mut Scene) {
    let ready = |scene: &mut Scene| {
        let mut entry = libc::pollfd {
            fd: scene.b,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry.
        scene.note("ready", unsafe { libc::poll(&mut entry, 1, 20) });
    };
    for mark in [9, 0, -1, 1] {
        set(scene, libc::SOL_SOCKET, libc::SO_RCVLOWAT, mark);
        scene.feed(b"five!");
        ready(scene);
        if mark == 9 {
            scene.feed(b"more");
            ready(scene);
            receive(scene, 0);
            receive(scene, libc::MSG_DONTWAIT);
        } else {
            receive(scene, 0);
        }
    }
}

fn refused(scene: &mut Scene) {
    set(scene, libc::SOL_SOCKET, 7777, 1);
    let short = 9_u8;
    for option in [libc::SO_RCVLOWAT, libc::SO_RCVTIMEO] {
        call!(
            scene,
            "setsockopt",
            fn(c_int, c_int, c_int, *const u8, socklen_t) -> c_int,
            scene.b,
            libc::SOL_SOCKET,
            option,
            &raw const short,
            1
        );
    }
    let wrong = libc::timeval {
        tv_sec: 0,
        tv_usec: 2_000_000,
    };
    call!(
        scene,
        "setsockopt",
        fn(c_int, c_int, c_int, *const libc::timeval, socklen_t) -> c_int,
        scene.b,
        libc::SOL_SOCKET,
        libc::SO_RCVTIMEO,
        &raw const wrong,
        16
    );
    scene.feed(b"five!");
    receive(scene, 0);
}

/// `tcpi_bytes_acked`, `tcpi_bytes_received` and `tcpi_bytes_sent`, each less what was exchanged to
/// get here; acknowledgements take their time.
fn tcp_info(scene: &mut Scene) {
    let before = [scene.a, scene.b].map(settled);
    scene.feed(b"a hundred bytes are not many, but enough to count");
    scene.drain(49);
    write(scene.b, b"and back");
    assert_eq!(read_some(scene.a, 8), b"and back");
    let after = [scene.a, scene.b].map(settled);
    for (before, after) in before.iter().zip(after) {
        let grown: Vec<u64> = before
            .iter()
            .zip(after)
            .map(|(before, after)| after - before)
            .collect();
        scene.note("grown", grown);
    }
    // All bytes of this connection were acknowledged, the SYN too, where it counts.
    let extra = |at: usize| after[at][0].wrapping_sub(after[at][2]);
    scene.note("acknowledged besides bytes", (extra(0), extra(1)));
}

/// The three counts, when all that was sent is acknowledged and nothing changes any more.
fn settled(fd: c_int) -> [u64; 3] {
    let start = Instant::now();
    let mut last = counts(fd);
    loop {
        std::thread::sleep(Duration::from_millis(5));
        let now = counts(fd);
        let all = now[0] >= now[2];
        if (now == last && all) || start.elapsed() > Duration::from_secs(2) {
            return now;
        }
        last = now;
    }
}

fn counts(fd: c_int) -> [u64; 3] {
    let mut info = [0_u64; 32];
    let mut len = size_of_val(&info) as socklen_t;
    // SAFETY: room of this length.
    unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut len,
        )
    };
    [info[120 / 8], info[128 / 8], info[200 / 8]]
}

fn unsent(scene: &mut Scene) {
    scene.feed(b"nobody reads this yet");
    let start = Instant::now();
    let mut count: c_int = -1;
    while count != 0 && start.elapsed() < Duration::from_secs(2) {
        // SAFETY: the request writes one int.
        unsafe { libc::ioctl(scene.a, libc::TIOCOUTQ, &mut count) };
    }
    scene.note("unsent", count);
    scene.drain(21);
}

fn sent_control(scene: &mut Scene, kind: c_int) {
    let mut bytes = *b"bytes";
    let mut piece = iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: 5,
    };
    let mut control = [0_u64; 3];
    // SAFETY: all zero is a message; the control data has room for one int, as its length says.
    let mut header: msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    // SAFETY: as above.
    unsafe {
        header.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let first = libc::CMSG_FIRSTHDR(&header);
        (*first).cmsg_len = libc::CMSG_LEN(4) as usize;
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = kind;
    }
    let sent = call!(
        scene,
        "sendmsg",
        fn(c_int, *const msghdr, c_int) -> isize,
        scene.a,
        &raw const header,
        0
    );
    if sent > 0 {
        scene.drain(5);
    }
}
