//! Calls that return a new descriptor which is no socket.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

use libc::{mode_t, pid_t, sigset_t};

use crate::Case;
use crate::raw;
use crate::scene::{Scene, call, write};

pub const CASES: &[Case] = &[
    ("open", open),
    ("open64", open),
    ("__open", open),
    ("__open64", open),
    ("openat", openat),
    ("openat64", openat),
    ("__open_2", open_2),
    ("__open64_2", open_2),
    ("__openat_2", openat_2),
    ("__openat64_2", openat_2),
    ("creat", creat),
    ("creat64", creat),
    ("open_by_handle_at", open_by_handle_at),
    ("mkstemp", mkstemp),
    ("mkstemp64", mkstemp),
    ("mkostemp", mkostemp),
    ("mkostemp64", mkostemp),
    ("mkstemps", mkstemps),
    ("mkstemps64", mkstemps),
    ("mkostemps", mkostemps),
    ("mkostemps64", mkostemps),
    ("pipe", pipe),
    ("__pipe", pipe),
    ("pipe2", pipe2),
    ("eventfd", eventfd),
    ("timerfd_create", two_flags),
    ("signalfd", signalfd),
    ("inotify_init", no_arguments),
    ("inotify_init1", one_flag),
    ("fanotify_init", two_flags),
    ("memfd_create", memfd_create),
    ("posix_openpt", posix_openpt),
    ("getpt", no_arguments),
    ("mq_open", mq_open),
    ("shm_open", shm_open),
    ("pidfd_open", pidfd_open),
    ("pidfd_getfd", pidfd_getfd),
];

const READ_WRITE: c_int = libc::O_RDWR;
const NULL: &CStr = c"/dev/null";

/// A number of the connection is closed behind libc's back; the new descriptor gets it, and must not
/// be taken for the connection.
fn opens(scene: &mut Scene, open: impl FnOnce(&mut Scene) -> c_int) {
    // SAFETY: plain integers.
    let stale = unsafe { libc::dup(scene.a) };
    if stale >= 0 {
        raw::syscall(libc::SYS_close, [stale as usize]);
    }
    let fd = open(scene);
    if fd < 0 {
        return;
    }
    scene.note("same number", stale < 0 || fd == stale);
    // SAFETY: plain integers.
    unsafe {
        scene.note(
            "shutdown",
            (
                libc::shutdown(fd, libc::SHUT_RDWR),
                std::io::Error::last_os_error().raw_os_error(),
            ),
        );
        scene.note("close", libc::close(fd));
    }
}

fn open(scene: &mut Scene, name: &'static str) {
    opens(scene, |scene| {
        let fd = call!(
            scene,
            name,
            fn(*const c_char, c_int, mode_t) -> c_int,
            NULL.as_ptr(),
            READ_WRITE,
            0
        );
        scene.note("write", write(fd, b"nothing"));
        fd
    });
    call!(
        scene,
        name,
        fn(*const c_char, c_int, mode_t) -> c_int,
        c"/nonexistent".as_ptr(),
        READ_WRITE,
        0
    );
}

fn openat(scene: &mut Scene, name: &'static str) {
    opens(scene, |scene| {
        call!(
            scene,
            name,
            fn(c_int, *const c_char, c_int, mode_t) -> c_int,
            libc::AT_FDCWD,
            NULL.as_ptr(),
            READ_WRITE,
            0
        )
    });
    call!(
        scene,
        name,
        fn(c_int, *const c_char, c_int, mode_t) -> c_int,
        scene.a,
        c"name".as_ptr(),
        READ_WRITE,
        0
    );
}

fn open_2(scene: &mut Scene, name: &'static str) {
    opens(scene, |scene| {
        call!(
            scene,
            name,
            fn(*const c_char, c_int) -> c_int,
            NULL.as_ptr(),
            READ_WRITE
        )
    });
}

fn openat_2(scene: &mut Scene, name: &'static str) {
    opens(scene, |scene| {
        call!(
            scene,
            name,
            fn(c_int, *const c_char, c_int) -> c_int,
            libc::AT_FDCWD,
            NULL.as_ptr(),
            READ_WRITE
        )
    });
}

fn creat(scene: &mut Scene, name: &'static str) {
    opens(scene, |scene| {
        call!(
            scene,
            name,
            fn(*const c_char, mode_t) -> c_int,
            NULL.as_ptr(),
            0o600
        )
    });
}

fn open_by_handle_at(scene: &mut Scene, name: &'static str) {
    call!(
        scene,
        name,
        fn(c_int, *mut c_void, c_int) -> c_int,
        scene.a,
        std::ptr::null_mut::<c_void>(),
        READ_WRITE
    );
}

/// Runs with a template that ends with `ending`, and removes what was made.
fn temporary(scene: &mut Scene, ending: &str, make: impl FnOnce(&mut Scene, *mut c_char) -> c_int) {
    let template = std::env::temp_dir().join(format!("ulsock-symbols-XXXXXX{ending}"));
    let template = CString::new(template.to_str().expect("path"))
        .expect("path")
        .into_raw();
    opens(scene, |scene| make(scene, template));
    // SAFETY: made by `into_raw` above, with the same length still.
    let path = unsafe { CString::from_raw(template) };
    // SAFETY: a C string.
    unsafe { libc::unlink(path.as_ptr()) };
}

fn mkstemp(scene: &mut Scene, name: &'static str) {
    temporary(scene, "", |scene, template| {
        call!(scene, name, fn(*mut c_char) -> c_int, template)
    });
}

fn mkostemp(scene: &mut Scene, name: &'static str) {
    temporary(scene, "", |scene, template| {
        call!(
            scene,
            name,
            fn(*mut c_char, c_int) -> c_int,
            template,
            libc::O_CLOEXEC
        )
    });
}

fn mkstemps(scene: &mut Scene, name: &'static str) {
    temporary(scene, ".txt", |scene, template| {
        call!(scene, name, fn(*mut c_char, c_int) -> c_int, template, 4)
    });
}

fn mkostemps(scene: &mut Scene, name: &'static str) {
    temporary(scene, ".txt", |scene, template| {
        call!(
            scene,
            name,
            fn(*mut c_char, c_int, c_int) -> c_int,
            template,
            4,
            libc::O_CLOEXEC
        )
    });
}

fn piped(scene: &mut Scene, make: impl FnOnce(&mut Scene, *mut c_int) -> c_int) {
    opens(scene, |scene| {
        let mut pair = [-1; 2];
        make(scene, pair.as_mut_ptr());
        write(pair[1], b"piped");
        scene.note("piped", crate::scene::read_some(pair[0], 5));
        // SAFETY: plain integers.
        unsafe { libc::close(pair[1]) };
        pair[0]
    });
}

fn pipe(scene: &mut Scene, name: &'static str) {
    piped(scene, |scene, pair| {
        call!(scene, name, fn(*mut c_int) -> c_int, pair)
    });
}

fn pipe2(scene: &mut Scene, name: &'static str) {
    piped(scene, |scene, pair| {
        call!(
            scene,
            name,
            fn(*mut c_int, c_int) -> c_int,
            pair,
            libc::O_CLOEXEC
        )
    });
}

fn eventfd(scene: &mut Scene, name: &'static str) {
    opens(scene, |scene| {
        call!(scene, name, fn(c_uint, c_int) -> c_int, 5, 0)
    });
}

fn no_arguments(scene: &mut Scene, name: &'static str) {
    opens(scene, |scene| call!(scene, name, fn() -> c_int));
}

fn one_flag(scene: &mut Scene, name: &'static str) {
    opens(scene, |scene| {
        call!(scene, name, fn(c_int) -> c_int, libc::O_CLOEXEC)
    });
    call!(scene, name, fn(c_int) -> c_int, -1);
}

fn two_flags(scene: &mut Scene, name: &'static str) {
    opens(scene, |scene| {
        call!(scene, name, fn(c_int, c_int) -> c_int, 0, libc::O_CLOEXEC)
    });
    call!(scene, name, fn(c_int, c_int) -> c_int, 77, 77);
}

fn signalfd(scene: &mut Scene, name: &'static str) {
    // SAFETY: all zero is the empty set.
    let mask: sigset_t = unsafe { std::mem::zeroed() };
    opens(scene, |scene| {
        call!(
            scene,
            name,
            fn(c_int, *const sigset_t, c_int) -> c_int,
            -1,
            &raw const mask,
            0
        )
    });
    call!(
        scene,
        name,
        fn(c_int, *const sigset_t, c_int) -> c_int,
        scene.a,
        &raw const mask,
        0
    );
}

fn memfd_create(scene: &mut Scene, name: &'static str) {
    opens(scene, |scene| {
        call!(
            scene,
            name,
            fn(*const c_char, c_uint) -> c_int,
            c"name".as_ptr(),
            0
        )
    });
}

fn posix_openpt(scene: &mut Scene, name: &'static str) {
    opens(scene, |scene| {
        call!(scene, name, fn(c_int) -> c_int, READ_WRITE | libc::O_NOCTTY)
    });
}

fn mq_open(scene: &mut Scene, name: &'static str) {
    let queue = CString::new(format!("/ulsock-symbols-{}", std::process::id())).expect("name");
    opens(scene, |scene| {
        call!(
            scene,
            name,
            fn(*const c_char, c_int, mode_t, *const c_void) -> c_int,
            queue.as_ptr(),
            READ_WRITE | libc::O_CREAT,
            0o600,
            std::ptr::null::<c_void>()
        )
    });
    // SAFETY: a C string.
    unsafe { libc::mq_unlink(queue.as_ptr()) };
}

fn shm_open(scene: &mut Scene, name: &'static str) {
    let memory = CString::new(format!("/ulsock-symbols-{}", std::process::id())).expect("name");
    opens(scene, |scene| {
        call!(
            scene,
            name,
            fn(*const c_char, c_int, mode_t) -> c_int,
            memory.as_ptr(),
            READ_WRITE | libc::O_CREAT,
            0o600
        )
    });
    // SAFETY: a C string.
    unsafe { libc::shm_unlink(memory.as_ptr()) };
}

fn pidfd_open(scene: &mut Scene, name: &'static str) {
    opens(scene, |scene| {
        call!(
            scene,
            name,
            fn(pid_t, c_uint) -> c_int,
            std::process::id(),
            0
        )
    });
}

/// A duplicate by another way.
fn pidfd_getfd(scene: &mut Scene, name: &'static str) {
    let own = raw::syscall(libc::SYS_pidfd_open, [std::process::id() as usize, 0]);
    let fd = call!(
        scene,
        name,
        fn(c_int, c_int, c_uint) -> c_int,
        own,
        scene.a,
        0
    );
    write(fd, b"through");
    scene.drain(7);
    // SAFETY: plain integers.
    unsafe { libc::close(fd) };
}
