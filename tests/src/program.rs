//! Starting a program for a test: its own process group, its output in files, a time limit on every
//! wait, and no process left behind whatever happens.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::netns::Namespace;
use crate::{procfs, top};

const LIMIT: Duration = Duration::from_secs(120);

/// A file of the release build, whatever profile the running test has: a program of `src/bin`, the
/// `ulsock` command or the preload library.
pub fn built(name: &str) -> PathBuf {
    let running = std::env::current_exe().expect("a test has a path");
    let folder = running.parent().expect("a file is in a folder");
    let profile = match folder.ends_with("deps") {
        true => folder.parent().expect("target/PROFILE/deps"),
        false => folder,
    };
    let path = profile.with_file_name("release").join(name);
    assert!(
        path.exists(),
        "{} is missing: build the workspace first, as tests/run does",
        path.display()
    );
    path
}

/// A program about to be started.
pub struct Program {
    name: String,
    command: Command,
    output: PathBuf,
    errors: PathBuf,
    limit: Duration,
    piped: bool,
    run_dir: Option<PathBuf>,
    namespace: Option<Rc<Namespace>>,
}

impl Program {
    /// `log` is where its output goes, with the endings `.out` and `.err`.
    pub fn new(program: impl AsRef<OsStr>, log: &Path) -> Self {
        let name = Path::new(&program).file_name().unwrap_or(program.as_ref());
        Self {
            name: name.to_string_lossy().into_owned(),
            command: Command::new(program),
            output: log.with_extension("out"),
            errors: log.with_extension("err"),
            limit: LIMIT,
            piped: false,
            run_dir: None,
            namespace: None,
        }
    }

    /// Adds arguments, split at white space; use [`Self::arg`] for one that contains some.
    pub fn args(mut self, words: &str) -> Self {
        self.command.args(words.split_whitespace());
        self
    }

    /// Adds one argument.
    pub fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
        self.command.arg(word);
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes a variable from its environment.
    pub fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Puts it under ulsock with this run directory.
    pub fn preload(mut self, run_dir: &Path) -> Self {
        self.run_dir = Some(run_dir.to_owned());
        self.env("LD_PRELOAD", built("libulsock_preload.so"))
            .env("ULSOCK_RUN_DIR", run_dir)
    }

    /// Removes every variable of ours from its environment.
    pub fn without_ulsock(mut self) -> Self {
        let ours = std::env::vars_os().filter(|(name, _)| {
            let name = name.to_string_lossy();
            name == "LD_PRELOAD" || name.starts_with("ULSOCK")
        });
        for (name, _) in ours {
            self.command.env_remove(name);
        }
        self
    }

    /// Starts it in another network namespace.
    pub fn within(mut self, namespace: &Rc<Namespace>) -> Self {
        self.namespace = Some(Rc::clone(namespace));
        self
    }

    /// Its working directory.
    pub fn directory(mut self, path: &Path) -> Self {
        self.command.current_dir(path);
        self
    }

    /// Runs it as this user; it loads a copy of the library, for it may be unable to reach our own.
    pub fn user(mut self, name: &str) -> Self {
        let (uid, gid) = user_ids(name);
        self.command.uid(uid).gid(gid);
        if self.run_dir.is_none() {
            return self;
        }
        let copy = self.output.with_file_name("library.so");
        if !copy.exists() {
            fs::copy(built("libulsock_preload.so"), &copy).expect("copy the library");
        }
        self.env("LD_PRELOAD", copy)
    }

    /// How long [`Running::wait`] waits.
    pub fn limit(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Its stdin is a pipe from the test; else it is empty.
    pub fn piped(mut self) -> Self {
        self.piped = true;
        self
    }

    /// Starts it.
    pub fn start(mut self) -> Running {
        match self.namespace.take() {
            Some(namespace) => namespace.enter(|| self.start_here()).expect("setns"),
            None => self.start_here(),
        }
    }

    fn start_here(mut self) -> Running {
        let stdin = if self.piped {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        self.command
            .stdin(stdin)
            .stdout(File::create(&self.output).expect("log file"))
            .stderr(File::create(&self.errors).expect("log file"))
            .process_group(0);
        // SAFETY: both calls are async-signal-safe. The kernel ends the program with the test; and it
        // can be interrupted, also if the test runs in a shell's background and cannot.
        unsafe {
            self.command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                libc::signal(libc::SIGQUIT, libc::SIG_DFL);
                Ok(())
            });
        }
        let mut child = self
            .command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", self.name));
        let stdin = child.stdin.take();
        Running {
            name: self.name,
            child,
            stdin,
            output: self.output,
            errors: self.errors,
            limit: self.limit,
            run_dir: self.run_dir,
        }
    }

    /// Starts it, waits, and demands exit status 0; gives its stdout.
    pub fn run(self) -> String {
        self.start().succeed()
    }
}

/// A started program; killed with its whole process group when dropped.
pub struct Running {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    output: PathBuf,
    errors: PathBuf,
    limit: Duration,
    run_dir: Option<PathBuf>,
}

/// What a program left.
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Its stdout.
    pub output: String,
    /// Its stderr.
    pub errors: String,
}

impl Running {
    /// Its process id, which is also its process group.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far.
    pub fn output(&self) -> String {
        read(&self.output)
    }

    /// What it has complained about so far.
    pub fn errors(&self) -> String {
        read(&self.errors)
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("wait").is_some()
    }

    /// Its exit status, if it has ended by itself.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("wait")
    }

    /// Waits until `done` holds; fails when the program ends first or the time is over.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            if let Some(status) = self.child.try_wait().expect("wait") {
                // It may have been done between the two looks.
                assert!(done(self), "{} ended ({status}) before {what}", self.name);
                return;
            }
            self.check_time(start, what);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until somebody listens on `port` of its network namespace.
    pub fn listening(mut self, port: u16) -> Self {
        self.until("it listens", |running| procfs::listens(running.pid(), port));
        self
    }

    /// Waits until somebody listens on the Unix socket `path`; an abstract name begins with `@`.
    pub fn listening_at(mut self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        self.until("it listens", |running| {
            procfs::listens_at(running.pid(), path)
        });
        self
    }

    /// Waits until its stdout contains `text`.
    pub fn prints(&mut self, text: &str) {
        self.until(&format!("it prints {text:?}"), |running| {
            running.output().contains(text)
        });
    }

    /// Writes to its stdin.
    pub fn tell(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is a pipe");
        stdin.write_all(text.as_bytes()).expect("write to stdin");
    }

    /// Sends a signal to the program alone, not to its children.
    pub fn signal(&self, signal: i32) {
        // SAFETY: plain integers; the child is not reaped yet, so the pid is ours.
        unsafe { libc::kill(self.pid() as i32, signal) };
    }

    /// Waits for its end, within the limit.
    pub fn wait(mut self) -> Finished {
        self.stdin = None;
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                break status;
            }
            self.check_time(start, "it ends");
            std::thread::sleep(Duration::from_millis(2));
        };
        Finished {
            status,
            output: read(&self.output),
            errors: read(&self.errors),
        }
    }

    /// Waits for its end and demands exit status 0; gives its stdout.
    pub fn succeed(self) -> String {
        let name = self.name.clone();
        let finished = self.wait();
        assert!(
            finished.status.success(),
            "{name} failed ({}): {}",
            finished.status,
            finished.errors
        );
        finished.output
    }

    /// Asks it to end by `signal` and waits; its exit status is its own affair.
    pub fn stop(self, signal: i32) -> Finished {
        self.signal(signal);
        self.wait()
    }

    fn check_time(&self, start: Instant, what: &str) {
        if start.elapsed() < self.limit {
            return;
        }
        panic!(
            "{} (pid {}): {:?} over and still waiting until {what}\n{}ulsock top: {}",
            self.name,
            self.pid(),
            self.limit,
            procfs::system_calls(self.pid()),
            self.run_dir.as_deref().map_or(String::new(), top::text)
        );
    }

    fn kill_group(&mut self) -> io::Result<ExitStatus> {
        // SAFETY: plain integers; the group is the one we made for this child.
        unsafe { libc::kill(-(self.child.id() as i32), libc::SIGKILL) };
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.kill_group() {
            eprintln!("{}: {error}", self.name);
        }
    }
}

/// User and group id of a user of this machine.
pub fn user_ids(name: &str) -> (u32, u32) {
    let users = fs::read_to_string("/etc/passwd").expect("/etc/passwd");
    let line = users
        .lines()
        .find(|line| line.split(':').next() == Some(name));
    let mut fields = line
        .unwrap_or_else(|| panic!("no user {name}"))
        .split(':')
        .skip(2);
    let mut number = || {
        fields
            .next()
            .and_then(|id| id.parse().ok())
            .expect("a number")
    };
    (number(), number())
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}
