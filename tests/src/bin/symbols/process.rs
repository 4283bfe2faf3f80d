//! Processes that begin and end: each child uses the stream too.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use libc::pid_t;

use crate::Case;
use crate::exec::wait;
use crate::scene::{Kind, Scene, call, read_some, symbol, write};

pub const CASES: &[Case] = &[
    ("fork", fork),
    ("__fork", fork),
    ("_Fork", fork),
    ("vfork", vfork),
    ("__vfork", vfork),
    ("clone", clone),
    ("__clone", clone),
    ("daemon", daemon),
    ("openpty", openpty),
    ("login_tty", login_tty),
    ("forkpty", forkpty),
    ("_exit", exit),
    ("_Exit", exit),
    ("quick_exit", exit),
];

/// What a child does, in functions that are safe after vfork.
fn be_a_child(fd: c_int) -> ! {
    write(fd, b"child");
    // SAFETY: plain integers.
    unsafe { libc::_exit(3) }
}

fn fork(scene: &mut Scene, name: &'static str) {
    let child = call!(scene, name, fn() -> pid_t);
    if child == 0 {
        be_a_child(scene.a);
    }
    wait(scene, child);
    scene.drain(5);
}

/// Its parent goes on only when the child has ended.
fn vfork(scene: &mut Scene, name: &'static str) {
    let vfork: unsafe extern "C" fn() -> pid_t = symbol(name);
    let fd = scene.a;
    // SAFETY: the child writes and ends, as it may.
    let child = unsafe { vfork() };
    if child == 0 {
        // SAFETY: no more than a short sleep.
        unsafe { libc::usleep(30_000) };
        be_a_child(fd);
    }
    // The child has closed its end of everything by now, also of the stream.
    let mut entry = libc::pollfd {
        fd: scene.b,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry.
    scene.note("written before", unsafe { libc::poll(&mut entry, 1, 0) });
    wait(scene, child);
    scene.drain(5);
}

extern "C" fn entry(fd: *mut c_void) -> c_int {
    write(fd as c_int, b"child");
    3
}

fn clone(scene: &mut Scene, name: &'static str) {
    let mut stack = vec![0_u128; 1 << 14];
    let top = stack.as_mut_ptr_range().end;
    let child = call!(
        scene,
        name,
        fn(extern "C" fn(*mut c_void) -> c_int, *mut c_void, c_int, *mut c_void) -> c_int,
        entry,
        top,
        libc::SIGCHLD,
        scene.a as usize
    );
    wait(scene, child);
    scene.drain(5);
}

/// The caller ends and its child goes on, so the caller is a child here.
fn daemon(scene: &mut Scene, name: &'static str) {
    // SAFETY: the child and its own child end below.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let daemon: unsafe extern "C" fn(c_int, c_int) -> c_int = symbol(name);
        // SAFETY: libc's function.
        unsafe { daemon(1, 1) };
        be_a_child(scene.a);
    }
    wait(scene, child);
    // Nobody waits for the daemon but its reader.
    let expected = if scene.kind.is_stream() || scene.kind == Kind::Pipe {
        5
    } else {
        0
    };
    let bytes = read_some(scene.b, expected);
    scene.note("daemon", bytes);
}

fn openpty(scene: &mut Scene, name: &'static str) {
    let (mut master, mut slave) = (-1, -1);
    call!(
        scene,
        name,
        fn(*mut c_int, *mut c_int, *mut c_char, *const c_void, *const c_void) -> c_int,
        &raw mut master,
        &raw mut slave,
        null_mut::<c_char>(),
        null::<c_void>(),
        null::<c_void>()
    );
    write(master, b"typed\n");
    scene.note("typed", read_some(slave, 6));
    for fd in [master, slave] {
        // SAFETY: plain integers.
        unsafe { libc::close(fd) };
    }
}

/// A socket is no terminal; a child gets a real one.
fn login_tty(scene: &mut Scene, name: &'static str) {
    let (mut master, mut slave) = (-1, -1);
    // SAFETY: room for two numbers; the child ends.
    let child = unsafe {
        libc::openpty(&mut master, &mut slave, null_mut(), null(), null());
        libc::fork()
    };
    if child == 0 {
        // SAFETY: plain integers. 0 is the stream before the call, and the terminal after it.
        unsafe { libc::dup2(scene.b, 0) };
        call!(scene, name, fn(c_int) -> c_int, slave);
        // SAFETY: plain integers.
        let terminal = [0, 1, 2].map(|fd| unsafe { libc::isatty(fd) });
        write(scene.a, format!("{terminal:?}").as_bytes());
        // SAFETY: plain integers.
        unsafe { libc::_exit(0) };
    }
    wait(scene, child);
    scene.drain(9);
    // SAFETY: as above; here the call fails before it changes anything.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let login_tty: unsafe extern "C" fn(c_int) -> c_int = symbol(name);
        // SAFETY: libc's function.
        unsafe { libc::_exit(login_tty(scene.a) & 127) };
    }
    wait(scene, child);
    scene.exchange();
    // The dup2 onto 0 has returned it to the kernel.
    scene.ended = true;
}

fn forkpty(scene: &mut Scene, name: &'static str) {
    let mut master = -1;
    let child = call!(
        scene,
        name,
        fn(*mut c_int, *mut c_char, *const c_void, *const c_void) -> pid_t,
        &raw mut master,
        null_mut::<c_char>(),
        null::<c_void>(),
        null::<c_void>()
    );
    if child == 0 {
        // SAFETY: plain integers.
        let terminal = [0, 1, 2].map(|fd| unsafe { libc::isatty(fd) });
        write(scene.a, format!("{terminal:?}").as_bytes());
        // SAFETY: plain integers.
        unsafe { libc::_exit(0) };
    }
    wait(scene, child);
    scene.drain(9);
    // SAFETY: plain integers.
    scene.note("close", unsafe { libc::close(master) });
}

fn exit(scene: &mut Scene, name: &'static str) {
    // SAFETY: the child ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let exit: unsafe extern "C" fn(c_int) -> ! = symbol(name);
        write(scene.a, b"child");
        // SAFETY: libc's function.
        unsafe { exit(3) };
    }
    wait(scene, child);
    scene.drain(5);
}
