//! System calls by number, and calls after which a process may do less.

use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};

use crate::Case;
use crate::scene::{Scene, call};

pub const CASES: &[Case] = &[
    ("syscall", syscall),
    ("prctl", prctl),
    ("mlockall", mlockall),
    ("chroot", chroot),
    ("setrlimit", setrlimit),
    ("setrlimit64", setrlimit),
    ("getrlimit", getrlimit),
    ("getrlimit64", getrlimit),
    ("prlimit", prlimit),
    ("prlimit64", prlimit),
    ("dlopen", dlopen),
    ("dlmopen", dlmopen),
];

/// Numbers of hooked calls, with their arguments, and two others; and calls that make descriptors and processes.
fn syscall(scene: &mut Scene, name: &'static str) {
    syscalls_of_data(scene, name);
    syscall_dup(scene, name);
    syscall_fork(scene, name);
}

fn syscalls_of_data(scene: &mut Scene, name: &'static str) {
    let mut room = [0_u8; 8];
    let text = b"numbers".as_ptr() as usize;
    let (a, b, to) = (
        scene.a as usize,
        scene.b as usize,
        room.as_mut_ptr() as usize,
    );
    let mut vector = [to, 3, to + 3, 4];
    let list = vector.as_mut_ptr() as usize;
    let mut message = [0, 0, list, 2, 0, 0, 0_usize];
    let header = message.as_mut_ptr() as usize;
    let mut time = [1_usize, 0];
    let mut entry = libc::pollfd {
        fd: scene.b,
        events: libc::POLLIN,
        revents: 0,
    };
    let (clock, entry) = (time.as_mut_ptr() as usize, &raw mut entry as usize);
    let calls: &[(c_long, [usize; 6])] = &[
        (libc::SYS_write, [a, text, 7, 0, 0, 0]),
        (libc::SYS_read, [b, to, 7, 0, 0, 0]),
        (libc::SYS_sendto, [a, text, 7, 0, 0, 0]),
        (libc::SYS_poll, [entry, 1, 1000, 0, 0, 0]),
        (libc::SYS_ppoll, [entry, 1, clock, 0, 8, 0]),
        (libc::SYS_recvfrom, [b, to, 7, 0x40, 0, 0]),
        (libc::SYS_writev, [a, list, 2, 0, 0, 0]),
        (libc::SYS_recvmsg, [b, header, 0x40, 0, 0, 0]),
        (libc::SYS_sendmsg, [a, header, 0, 0, 0, 0]),
        (libc::SYS_preadv2, [b, list, 2, usize::MAX, 0, 0]),
        (libc::SYS_preadv2, [b, list, 2, 5, 0, 0]),
        (libc::SYS_ppoll, [entry, 1, clock, to, 77, 0]),
        (libc::SYS_fcntl, [a, libc::F_GETFL as usize, 0, 0, 0, 0]),
        (libc::SYS_shutdown, [a, 77, 0, 0, 0, 0]),
        (libc::SYS_getuid, [0; 6]),
        (100_000, [0; 6]),
    ];
    for (number, [one, two, three, four, five, six]) in calls {
        call!(
            scene,
            name,
            fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long,
            *number,
            *one,
            *two,
            *three,
            *four,
            *five,
            *six
        );
    }
    scene.note("got", String::from_utf8_lossy(&room).into_owned());
    // All that may wait is polled for first, so less than the second has gone.
    scene.note("time is left", time[0] < 2);
}

fn syscall_dup(scene: &mut Scene, name: &'static str) {
    let copy = call!(
        scene,
        name,
        fn(c_long, c_int) -> c_long,
        libc::SYS_dup,
        scene.a
    );
    crate::scene::write(copy as c_int, b"copy");
    scene.drain(4);
    call!(
        scene,
        name,
        fn(c_long, c_int) -> c_long,
        libc::SYS_close,
        copy
    );
}

fn syscall_fork(scene: &mut Scene, name: &'static str) {
    let child = call!(scene, name, fn(c_long) -> c_long, libc::SYS_fork);
    if child == 0 {
        crate::scene::write(scene.a, b"child");
        call!(
            scene,
            name,
            fn(c_long, c_int) -> c_long,
            libc::SYS_exit_group,
            3
        );
    }
    crate::exec::wait(scene, child as c_int);
    scene.drain(5);
}

fn prctl(scene: &mut Scene, name: &'static str) {
    let mut comm = [0_u8; 16];
    call!(
        scene,
        name,
        fn(c_int, *const u8, c_ulong, c_ulong, c_ulong) -> c_int,
        libc::PR_SET_NAME,
        c"renamed".as_ptr(),
        0,
        0,
        0
    );
    call!(
        scene,
        name,
        fn(c_int, *mut u8, c_ulong, c_ulong, c_ulong) -> c_int,
        libc::PR_GET_NAME,
        comm.as_mut_ptr(),
        0,
        0,
        0
    );
    scene.note("name", String::from_utf8_lossy(&comm).into_owned());
    call!(
        scene,
        name,
        fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int,
        -1,
        0,
        0,
        0,
        0
    );
}

fn mlockall(scene: &mut Scene, name: &'static str) {
    call!(
        scene,
        name,
        fn(c_int) -> c_int,
        libc::MCL_CURRENT | libc::MCL_ONFAULT
    );
    // SAFETY: no arguments.
    unsafe { libc::munlockall() };
    call!(scene, name, fn(c_int) -> c_int, 77);
}

/// Resources, one of them none, and a limit that all may set.
const LIMITS: [(c_uint, libc::rlimit); 3] = [
    (libc::RLIMIT_AS, NO_LIMIT),
    (libc::RLIMIT_CORE, ZERO),
    (77, NO_LIMIT),
];
const NO_LIMIT: libc::rlimit = libc::rlimit {
    rlim_cur: libc::RLIM_INFINITY,
    rlim_max: libc::RLIM_INFINITY,
};
const ZERO: libc::rlimit = libc::rlimit {
    rlim_cur: 0,
    rlim_max: 0,
};

fn setrlimit(scene: &mut Scene, name: &'static str) {
    for (resource, limit) in LIMITS {
        call!(
            scene,
            name,
            fn(c_uint, *const libc::rlimit) -> c_int,
            resource,
            &raw const limit
        );
    }
}

fn getrlimit(scene: &mut Scene, name: &'static str) {
    for (resource, _) in LIMITS {
        let mut limit = ZERO;
        call!(
            scene,
            name,
            fn(c_uint, *mut libc::rlimit) -> c_int,
            resource,
            &raw mut limit
        );
        scene.note("limit", (limit.rlim_cur, limit.rlim_max));
    }
}

/// Of this process, by both its names, and of none.
fn prlimit(scene: &mut Scene, name: &'static str) {
    for pid in [0, std::process::id() as c_int, -1] {
        for (resource, new) in LIMITS {
            let mut old = ZERO;
            call!(
                scene,
                name,
                fn(c_int, c_uint, *const libc::rlimit, *mut libc::rlimit) -> c_int,
                pid,
                resource,
                &raw const new,
                &raw mut old
            );
            scene.note("before", (old.rlim_cur, old.rlim_max));
        }
    }
}

/// To where it is already.
fn chroot(scene: &mut Scene, name: &'static str) {
    for path in [c"/nonexistent", c"/"] {
        call!(scene, name, fn(*const c_char) -> c_int, path.as_ptr());
    }
}

fn dlopen(scene: &mut Scene, name: &'static str) {
    for path in [c"libm.so.6", c"/nonexistent.so"] {
        call!(
            scene,
            name,
            fn(*const c_char, c_int) -> *mut c_void,
            path.as_ptr(),
            libc::RTLD_NOW
        );
    }
}

fn dlmopen(scene: &mut Scene, name: &'static str) {
    for path in [c"libm.so.6", c"/nonexistent.so"] {
        call!(
            scene,
            name,
            fn(c_long, *const c_char, c_int) -> *mut c_void,
            0,
            path.as_ptr(),
            libc::RTLD_NOW
        );
    }
}
