//! New programs: each gets the stream and writes to it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use libc::{FILE, pid_t};

use crate::Case;
use crate::scene::{Scene, call};

pub const CASES: &[Case] = &[
    ("execve", execve),
    ("execv", execv),
    ("execvp", execv),
    ("execvpe", execve),
    ("fexecve", fexecve),
    ("execveat", execveat),
    ("execl", execl),
    ("execlp", execl),
    ("execle", execle),
    ("posix_spawn", posix_spawn),
    ("posix_spawnp", posix_spawn),
    ("system", system),
    ("popen", popen),
    ("_IO_popen", popen),
    ("_IO_proc_open", proc_open),
    ("wordexp", wordexp),
];

type Strings = *const *const c_char;

const SHELL: &CStr = c"/bin/sh";
const NOTHING: &CStr = c"/nonexistent/program";

/// What the program is to do.
struct Script(CString);

impl Script {
    fn new(fd: c_int) -> Script {
        Script(
            CString::new(format!("printf '%s' \"$WORD\" from-the-program >&{fd}")).expect("script"),
        )
    }

    fn arguments(&self) -> [*const c_char; 4] {
        [c"sh".as_ptr(), c"-c".as_ptr(), self.0.as_ptr(), null()]
    }
}

fn environment() -> [*const c_char; 2] {
    [c"WORD=word-".as_ptr(), null()]
}

/// Runs `exec` in a child, and reads what the program wrote.
fn becomes(scene: &mut Scene, exec: impl FnOnce(&mut Scene, &Script)) {
    scene.feed(b"before-");
    let script = Script::new(scene.a);
    // SAFETY: the child execs or ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        exec(scene, &script);
        // SAFETY: plain integers.
        unsafe { libc::_exit(77) };
    }
    wait(scene, child);
    scene.drain(23);
}

pub fn wait(scene: &mut Scene, child: pid_t) {
    let mut status = 0;
    // SAFETY: room for a status.
    unsafe { libc::waitpid(child, &mut status, 0) };
    scene.note("status", status);
}

fn execve(scene: &mut Scene, name: &'static str) {
    let run = |scene: &mut Scene, path: &CStr, script: &Script| {
        call!(
            scene,
            name,
            fn(*const c_char, Strings, Strings) -> c_int,
            path.as_ptr(),
            script.arguments().as_ptr(),
            environment().as_ptr()
        );
    };
    becomes(scene, |scene, script| run(scene, SHELL, script));
    run(scene, NOTHING, &Script::new(1));
}

fn execv(scene: &mut Scene, name: &'static str) {
    let run = |scene: &mut Scene, path: &CStr, script: &Script| {
        call!(
            scene,
            name,
            fn(*const c_char, Strings) -> c_int,
            path.as_ptr(),
            script.arguments().as_ptr()
        );
    };
    becomes(scene, |scene, script| run(scene, SHELL, script));
    run(scene, NOTHING, &Script::new(1));
}

fn fexecve(scene: &mut Scene, name: &'static str) {
    // SAFETY: a C string.
    let shell = unsafe { libc::open(SHELL.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    let run = |scene: &mut Scene, fd: c_int, script: &Script| {
        call!(
            scene,
            name,
            fn(c_int, Strings, Strings) -> c_int,
            fd,
            script.arguments().as_ptr(),
            environment().as_ptr()
        );
    };
    becomes(scene, |scene, script| run(scene, shell, script));
    run(scene, -1, &Script::new(1));
}

fn execveat(scene: &mut Scene, name: &'static str) {
    let run = |scene: &mut Scene, path: &CStr, script: &Script| {
        call!(
            scene,
            name,
            fn(c_int, *const c_char, Strings, Strings, c_int) -> c_int,
            libc::AT_FDCWD,
            path.as_ptr(),
            script.arguments().as_ptr(),
            environment().as_ptr(),
            0
        );
    };
    becomes(scene, |scene, script| run(scene, SHELL, script));
    run(scene, NOTHING, &Script::new(1));
}

/// More words than there are registers.
fn execl(scene: &mut Scene, name: &'static str) {
    type Word = *const c_char;
    let run = |scene: &mut Scene, path: &CStr, script: &Script| {
        let [shell, option, script, end] = script.arguments();
        let word = c"unused".as_ptr();
        call!(
            scene,
            name,
            fn(Word, Word, Word, Word, Word, Word, Word, Word, Word) -> c_int,
            path.as_ptr(),
            shell,
            option,
            script,
            word,
            word,
            word,
            word,
            end
        );
    };
    becomes(scene, |scene, script| run(scene, SHELL, script));
    run(scene, NOTHING, &Script::new(1));
}

fn execle(scene: &mut Scene, name: &'static str) {
    type Word = *const c_char;
    let run = |scene: &mut Scene, path: &CStr, script: &Script| {
        let [shell, option, script, end] = script.arguments();
        let word = c"unused".as_ptr();
        call!(
            scene,
            name,
            fn(Word, Word, Word, Word, Word, Word, Word, Strings) -> c_int,
            path.as_ptr(),
            shell,
            option,
            script,
            word,
            word,
            end,
            environment().as_ptr()
        );
    };
    becomes(scene, |scene, script| run(scene, SHELL, script));
    run(scene, NOTHING, &Script::new(1));
}

/// The socket is close-on-exec, and duplicated for the program.
fn posix_spawn(scene: &mut Scene, name: &'static str) {
    const NUMBER: c_int = 7;
    scene.feed(b"before-");
    let script = Script::new(NUMBER);
    // SAFETY: all zero is a place for `init`.
    let mut actions: libc::posix_spawn_file_actions_t = unsafe { std::mem::zeroed() };
    // SAFETY: the actions live until they are destroyed.
    unsafe {
        libc::fcntl(scene.a, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::posix_spawn_file_actions_init(&mut actions);
        libc::posix_spawn_file_actions_adddup2(&mut actions, scene.a, NUMBER);
    }
    let mut child: pid_t = -1;
    let result = call!(
        scene,
        name,
        fn(*mut pid_t, *const c_char, *const c_void, *const c_void, Strings, Strings) -> c_int,
        &raw mut child,
        SHELL.as_ptr(),
        &raw const actions,
        null::<c_void>(),
        script.arguments().as_ptr(),
        environment().as_ptr()
    );
    // SAFETY: as above.
    unsafe { libc::posix_spawn_file_actions_destroy(&mut actions) };
    if result == 0 {
        wait(scene, child);
    }
    scene.drain(28);
    call!(
        scene,
        name,
        fn(*mut pid_t, *const c_char, *const c_void, *const c_void, Strings, Strings) -> c_int,
        null_mut::<pid_t>(),
        NOTHING.as_ptr(),
        null::<c_void>(),
        null::<c_void>(),
        script.arguments().as_ptr(),
        environment().as_ptr()
    );
}

fn system(scene: &mut Scene, name: &'static str) {
    scene.feed(b"before-");
    call!(
        scene,
        name,
        fn(*const c_char) -> c_int,
        Script::new(scene.a).0.as_ptr()
    );
    scene.drain(23);
}

fn popen(scene: &mut Scene, name: &'static str) {
    scene.feed(b"before-");
    let stream = call!(
        scene,
        name,
        fn(*const c_char, *const c_char) -> *mut FILE,
        Script::new(scene.a).0.as_ptr(),
        c"r".as_ptr()
    );
    // SAFETY: an open stream.
    scene.note("status", unsafe { libc::pclose(stream) });
    scene.drain(23);
}

/// On a stream that is open already it does nothing.
fn proc_open(scene: &mut Scene, name: &'static str) {
    // SAFETY: C strings.
    let stream = unsafe { libc::fopen(c"/dev/null".as_ptr(), c"r".as_ptr()) };
    call!(
        scene,
        name,
        fn(*mut FILE, *const c_char, *const c_char) -> *mut FILE,
        stream,
        c"true".as_ptr(),
        c"r".as_ptr()
    );
}

fn wordexp(scene: &mut Scene, name: &'static str) {
    let mut words = [0_usize; 8];
    scene.feed(b"before-");
    let script = format!("$({})", Script::new(scene.a).0.to_str().expect("script"));
    let script = CString::new(script).expect("script");
    for text in [c"plain", &script] {
        call!(
            scene,
            name,
            fn(*const c_char, *mut c_void, c_int) -> c_int,
            text.as_ptr(),
            words.as_mut_ptr(),
            0
        );
        scene.note("words", words[0]);
    }
    scene.drain(23);
}
