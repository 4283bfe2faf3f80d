//! The processes of a run, the pipes to them, and what `/proc` says about their threads.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::Corner;
use crate::differ::actor::uring;
use crate::differ::mode::Mode;
use crate::differ::program::ACTORS;
use crate::differ::wires::{self, CONTROL, THREADS};
use crate::program::built;

/// The first of the ports that programs name.
const PORT: u16 = 7100;

/// One actor, as the controller sees it.
struct Actor {
    process: Option<Child>,
    pid: u32,
    threads: [u32; THREADS],
    busy: [bool; THREADS],
    commands: [File; THREADS + 1],
    replies: File,
    unread: Vec<u8>,
    said: [VecDeque<String>; THREADS + 1],
    there: bool,
}

pub struct Cast {
    actors: Vec<Actor>,
    /// Where Unix sockets have their names in this run.
    names: PathBuf,
}

/// The ends of one actor's pipes that the actor gets.
struct Ends {
    commands: Vec<OwnedFd>,
    reply: OwnedFd,
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: room for two, which are then ours.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0, "pipe");
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

fn actor() -> (Actor, Ends) {
    let (inner, outer): (Vec<OwnedFd>, Vec<OwnedFd>) = (0..=THREADS).map(|_| pipe()).unzip();
    let (replies, reply) = pipe();
    // SAFETY: our own descriptor.
    unsafe { libc::fcntl(replies.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    let commands: Vec<File> = outer.into_iter().map(File::from).collect();
    let actor = Actor {
        process: None,
        pid: 0,
        threads: [0; THREADS],
        busy: [false; THREADS],
        commands: commands.try_into().expect("as many as threads"),
        replies: replies.into(),
        unread: Vec::new(),
        said: Default::default(),
        there: false,
    };
    (
        actor,
        Ends {
            commands: inner,
            reply,
        },
    )
}

/// An address that no other run uses at this time.
fn host() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (run, pid) = (NEXT.fetch_add(1, Ordering::Relaxed), std::process::id());
    127 << 24 | (1 + (pid >> 8) % 250) << 16 | (1 + pid % 250) << 8 | (1 + run % 250)
}

impl Cast {
    pub fn start(mode: &Mode, corner: &Corner, program: &Path) -> Self {
        let (actors, ends): (Vec<Actor>, Vec<Ends>) = (0..ACTORS.len()).map(|_| actor()).unzip();
        let names = corner.new_folder();
        let mut cast = Self { actors, names };
        let mut pair = [0; 2];
        // SAFETY: room for two, which are then ours.
        let pair = unsafe {
            let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
            assert_eq!(
                libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()),
                0,
                "socketpair"
            );
            pair.map(|fd| OwnedFd::from_raw_fd(fd))
        };
        let host = host();
        for (root, passing) in pair.iter().enumerate() {
            let mut moves = vec![(passing.as_raw_fd(), wires::PASS)];
            for owner in [root, wires::child_of(root).expect("a root")] {
                let commands = ends[owner].commands.iter().enumerate();
                moves.extend(
                    commands.map(|(thread, fd)| (fd.as_raw_fd(), wires::command(owner, thread))),
                );
                moves.push((ends[owner].reply.as_raw_fd(), wires::reply(owner)));
            }
            let mut command = Command::new(program);
            command.args([
                "actor",
                &root.to_string(),
                &host.to_string(),
                &PORT.to_string(),
            ]);
            command.arg(&cast.names);
            prepare(&mut command, mode, root, corner, moves);
            cast.actors[root].process = Some(command.spawn().expect("start an actor"));
        }
        for root in 0..2 {
            cast.expect_hello(root, super::HANG);
        }
        cast
    }

    fn expect_hello(&mut self, actor: usize, limit: Duration) -> bool {
        let start = Instant::now();
        while start.elapsed() < limit {
            if let Some(text) = self.hear(actor, CONTROL, Duration::from_millis(1)) {
                self.greeted(actor, &text);
                return true;
            }
        }
        false
    }

    fn greeted(&mut self, actor: usize, text: &str) {
        let mut words = text
            .split(' ')
            .skip(1)
            .map(|word| word.parse().expect("a number"));
        let actor = &mut self.actors[actor];
        actor.pid = words.next().expect("a process");
        actor.threads = std::array::from_fn(|_| words.next().expect("a thread"));
        actor.busy = [false; THREADS];
        actor.there = true;
    }

    pub fn expect_child(&mut self, parent: usize, limit: Duration) {
        if let Some(child) = wires::child_of(parent) {
            // A second child would read the same pipes: programs fork once.
            self.expect_hello(child, limit);
        }
    }

    pub fn is_there(&self, actor: usize) -> bool {
        self.actors[actor].there
    }

    pub fn is_busy(&self, actor: usize, thread: usize) -> bool {
        self.actors[actor].there && self.actors[actor].busy[thread]
    }

    pub fn set_busy(&mut self, actor: usize, thread: usize, busy: bool) {
        self.actors[actor].busy[thread] = busy;
    }

    /// The actor is gone.
    pub fn bury(&mut self, actor: usize) {
        self.actors[actor].there = false;
    }

    pub fn tell(&mut self, actor: usize, thread: usize, text: &str) {
        // An actor that has died is found out when its answer is waited for.
        let _ = self.actors[actor].commands[thread].write_all(text.as_bytes());
    }

    /// What a thread has said; waits a little if it has said nothing.
    pub fn hear(&mut self, actor: usize, thread: usize, wait: Duration) -> Option<String> {
        let found = self.actors[actor].said[thread].pop_front();
        if found.is_some() {
            return found;
        }
        let mut poll = libc::pollfd {
            fd: self.actors[actor].replies.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let time = libc::timespec {
            tv_sec: 0,
            tv_nsec: wait.as_nanos() as i64,
        };
        // SAFETY: one entry, no mask.
        unsafe { libc::ppoll(&raw mut poll, 1, &raw const time, std::ptr::null()) };
        self.read(actor);
        // An exec ends with the hello of the new image, on behalf of the thread that called it.
        if thread != CONTROL
            && let Some(hello) = self.actors[actor].said[CONTROL].pop_front()
        {
            self.greeted(actor, &hello);
            return Some("hello".to_owned());
        }
        self.actors[actor].said[thread].pop_front()
    }

    fn read(&mut self, actor: usize) {
        let actor = &mut self.actors[actor];
        let mut bytes = [0u8; 8192];
        while let Ok(n @ 1..) = actor.replies.read(&mut bytes) {
            actor.unread.extend(&bytes[..n]);
        }
        while let Some(end) = actor.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = actor.unread.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let (thread, text) = line.trim_end().split_once(' ').unwrap_or(("0", ""));
            let thread: usize = thread.parse().expect("a thread");
            actor.said[thread].push_back(text.to_owned());
        }
    }

    /// The letter of a thread's state; `None` when its process is gone.
    pub fn state(&mut self, actor: usize, thread: usize) -> Option<char> {
        let actor = &self.actors[actor];
        let thread = format!("/proc/{}/task/{}/stat", actor.pid, actor.threads[thread]);
        // exec takes the thread's number away before the new image says hello.
        let process = || letter(&format!("/proc/{}/stat", actor.pid)).map(|_| 'R');
        letter(&thread).or_else(process)
    }

    /// How an actor died.
    pub fn death(&mut self, actor: usize, limit: Duration) -> String {
        match self.ended(actor, limit) {
            Some(status) if status.signal().is_some() => format!("killed by {:?}", status.signal()),
            Some(status) => format!("exited {:?}", status.code()),
            // The thread that exec was called from, or a child whose parent has its status.
            None => {
                self.await_threads(actor, limit);
                "gone".to_owned()
            }
        }
    }

    /// The first thread of a process is dead before the others, which still hold its descriptors.
    fn await_threads(&self, actor: usize, limit: Duration) {
        let path = format!("/proc/{}/task", self.actors[actor].pid);
        let others = || fs::read_dir(&path).map_or(0, |tasks| tasks.count()) > 1;
        let start = Instant::now();
        while others() && start.elapsed() < limit {
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    fn ended(&mut self, actor: usize, limit: Duration) -> Option<std::process::ExitStatus> {
        let process = self.actors[actor].process.as_mut()?;
        let start = Instant::now();
        while start.elapsed() < limit {
            if let Ok(Some(status)) = process.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        None
    }

    /// The system call that a thread is in.
    pub fn where_is(&self, actor: usize, thread: usize) -> String {
        let actor = &self.actors[actor];
        let path = format!("/proc/{}/task/{}/syscall", actor.pid, actor.threads[thread]);
        let text = fs::read_to_string(path).unwrap_or_default();
        format!("~in={}", text.split(' ').next().unwrap_or("").trim())
    }

    pub fn signal(&self, actor: usize, thread: usize, signal: i32) {
        let actor = &self.actors[actor];
        let thread = actor.threads[thread.min(THREADS - 1)];
        // SAFETY: plain numbers; the process is ours and not reaped yet.
        unsafe { libc::syscall(libc::SYS_tgkill, actor.pid, thread, signal) };
    }

    /// Tells an actor to exit; did it?
    pub fn dismiss(&mut self, actor: usize, limit: Duration) -> bool {
        let nowhere = || File::open("/dev/null").expect("open /dev/null");
        self.actors[actor].commands = std::array::from_fn(|_| nowhere());
        if self.actors[actor].process.is_some() {
            return self.ended(actor, limit).is_some();
        }
        let start = Instant::now();
        while start.elapsed() < limit {
            if self.state(actor, 0).is_none() {
                return true;
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        false
    }
}

/// The state in a stat file of `/proc`, unless it is that of the dead.
fn letter(path: &str) -> Option<char> {
    let text = fs::read_to_string(path).ok()?;
    let state = text.rsplit_once(") ")?.1.chars().next()?;
    (!matches!(state, 'Z' | 'X')).then_some(state)
}

impl Drop for Cast {
    fn drop(&mut self) {
        for actor in &mut self.actors {
            match &mut actor.process {
                Some(process) => {
                    let _ = process.kill();
                    let _ = process.wait();
                }
                None if actor.there => {
                    // SAFETY: plain numbers. Its parent has not reaped it, and dies after it.
                    unsafe { libc::kill(actor.pid as i32, libc::SIGKILL) };
                }
                None => {}
            }
        }
        let _ = fs::remove_dir_all(&self.names);
    }
}

/// Environment, output and descriptors of an actor.
fn prepare(
    command: &mut Command,
    mode: &Mode,
    root: usize,
    corner: &Corner,
    moves: Vec<(RawFd, RawFd)>,
) {
    let ours = |name: &std::ffi::OsStr| {
        name == "LD_PRELOAD" || name.to_string_lossy().starts_with("ULSOCK")
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    // An actor in Go must not be interrupted by a signal of Go's scheduler.
    command.env("GODEBUG", "asyncpreemptoff=1");
    if mode.uring {
        command.env(uring::VARIABLE, "1");
    }
    if mode.under[root] {
        command
            .env("LD_PRELOAD", built("libulsock_preload.so"))
            .env("ULSOCK_RUN_DIR", &corner.run_dir)
            .env("ULSOCK_REPORT", corner.report())
            .envs(mode.settings());
    }
    let errors = File::options()
        .create(true)
        .append(true)
        .open(corner.errors(root))
        .expect("log file");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors);
    // SAFETY: dup2 and prctl are async-signal-safe; the numbers are above all that are moved.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            for (from, to) in &moves {
                if libc::dup2(*from, *to) < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
}
