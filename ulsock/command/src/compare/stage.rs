//! Where runs happen: a work folder, the environment of each carrier, and a server and a client that
//! are started, timed, and ended.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::contender::Contender;
use super::cores::Placement;
use super::daemons::ProgramsPort;
use super::duel::{Backend, Duel, Stop, stop, until_ready};
use super::guard::Guard;
use super::hosts::{self, Hosts};
use super::process::{Ended, Process};
use super::usage::{End, Usage, UsageFiles};
use super::user;
use crate::failure::Failure;
use crate::install::Install;
use crate::preload;

/// A run that takes this much longer than it measures hangs.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);
/// What programs are built in, if need be with all that they use: Go compiles its library at its first use.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(300);

/// Who runs, and where.
#[derive(Clone, Copy)]
pub struct How {
    pub contender: Contender,
    pub placement: Placement,
}

/// What a run gave.
pub struct Ran {
    /// The client's.
    pub output: String,
    pub errors: String,
    /// Of both ends, from when the server could be asked; of the server with its end. On ulsock between hosts that of
    /// the daemons in this time, too.
    pub cpu: Duration,
    /// From the client's start to its end.
    pub wall: Duration,
    /// What the two ends reported, on ulsock.
    pub usage: [Option<Usage>; 2],
}

pub struct Stage {
    folder: PathBuf,
    install: Install,
    library: PathBuf,
    usage: UsageFiles,
    pub seconds: Duration,
    pub warm_up: Duration,
    /// Runs so far: their sockets have different names.
    runs: Cell<u64>,
    /// The ends are on two of them, if so asked.
    hosts: Option<Hosts>,
    guard: Rc<Guard>,
}

impl Stage {
    pub fn new(
        install: Install,
        seconds: Duration,
        warm_up: Duration,
        hosts: Option<ProgramsPort>,
    ) -> Result<Stage, Failure> {
        let library = install.library()?;
        // The path is checked here, once.
        preload::with_library(&library, None)?;
        let setup = || -> io::Result<(Vec<PathBuf>, UsageFiles, Guard)> {
            let mut folders = vec![create_folder(&std::env::temp_dir())?];
            if hosts.is_some() {
                folders.push(create_folder(Path::new("/dev/shm"))?);
            }
            let guard = Guard::start(&folders)?;
            let usage = UsageFiles::create(&folders[0])?;
            Ok((folders, usage, guard))
        };
        let (mut folders, usage, guard) = setup().map_err(|error| {
            Failure::setup(format!("cannot create a temporary folder: {error}"))
        })?;
        let folder = folders.remove(0);
        let guard = Rc::new(guard);
        let hosts = hosts.zip(folders.pop());
        let hosts = hosts.map(|(port, folder)| Hosts::new(folder, port, &guard));
        let hosts = hosts.transpose()?;
        Ok(Stage {
            folder,
            install,
            library,
            usage,
            seconds,
            warm_up,
            runs: Cell::new(0),
            hosts,
            guard,
        })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file of our own that no other run has.
    pub fn fresh(&self, name: &str) -> PathBuf {
        let number = self.runs.replace(self.runs.get() + 1);
        self.folder.join(format!("{name}-{number}"))
    }

    /// An empty one that programs can write to, whichever user they run as.
    pub fn fresh_file(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.fresh(name);
        let made = File::create_new(&path)
            .and_then(|file| file.set_permissions(Permissions::from_mode(0o666)));
        match made {
            Ok(()) => Ok(path),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// Where a server can make a Unix socket, whichever user it runs as.
    pub fn socket(&self) -> Result<PathBuf, String> {
        let path = self.fresh("sockets");
        let made = DirBuilder::new()
            .create(&path)
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o1777)));
        match made {
            Ok(()) => Ok(path.join("s")),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// Where servers listen.
    pub fn host(&self) -> &'static str {
        match &self.hosts {
            Some(_) => hosts::SERVER,
            None => "127.0.0.1",
        }
    }

    /// Whether the ends are on two hosts.
    pub fn between_hosts(&self) -> bool {
        self.hosts.is_some()
    }

    /// A TCP port of the server's host that nobody uses now.
    pub fn port(&self, how: &How) -> Result<u16, String> {
        let free = || TcpListener::bind((self.host(), 0))?.local_addr();
        self.at(how, End::Server, free)
            .map(|address| address.port())
            .map_err(|error| format!("no free port: {error}"))
    }

    /// One of our own small programs.
    pub fn own(&self, how: &How, end: End, name: &str) -> Result<Command, String> {
        let path = self
            .install
            .find(name)
            .map_err(|failure| failure.to_string())?;
        let path = match self.between_hosts() {
            true => self.shared(&path)?,
            false => path,
        };
        Ok(self.command(how, end, path))
    }

    /// A program in the environment of its contender.
    pub fn command(&self, how: &How, end: End, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder);
        match how.contender {
            contender if contender.has_library() => command.envs(self.variables(end)),
            // It has ulsock in it.
            Contender::Messages => command
                .envs(self.variables(end))
                .env("LD_PRELOAD", preload::without_library(preloaded())),
            _ => command
                .env("LD_PRELOAD", preload::without_library(preloaded()))
                .env_remove("ULSOCK_REPORT"),
        };
        command
    }

    /// What puts a program on ulsock.
    pub fn variables(&self, end: End) -> Vec<(&'static str, OsString)> {
        let mut variables = vec![
            ("LD_PRELOAD", self.preload(&self.library)),
            ("ULSOCK_REPORT", self.usage.path(end).into()),
        ];
        variables.extend(self.hosts.iter().flat_map(|hosts| hosts.variables(end)));
        variables
    }

    /// Calls `start` on the host where this end runs.
    fn at<T>(&self, how: &How, end: End, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match &self.hosts {
            Some(hosts) => hosts.enter(how.contender, end, start),
            None => start(),
        }
    }

    /// A program of a scenario between hosts runs as a user without rights, as it would on a cluster.
    pub fn take_rights(&self, command: &mut Command) -> Result<(), String> {
        let Some(user) = user::for_servers().filter(|_| self.between_hosts()) else {
            return Ok(());
        };
        command.uid(user.uid).gid(user.gid);
        // One of the two ends may be without it.
        let ours = self.preload(&self.library);
        let has_ours = |(name, value): (&OsStr, Option<&OsStr>)| {
            name == "LD_PRELOAD" && value == Some(ours.as_os_str())
        };
        if command.get_envs().any(has_ours) {
            command.env("LD_PRELOAD", self.shared_library()?);
        }
        Ok(())
    }

    /// The library where other users can read it; for programs that are started as one.
    pub fn shared_library(&self) -> Result<OsString, String> {
        self.shared(&self.library).map(|copy| self.preload(&copy))
    }

    /// A copy of a file that other users can read.
    fn shared(&self, file: &Path) -> Result<PathBuf, String> {
        let name = file.file_name().unwrap_or_default();
        let copy = self.folder.join(name);
        if !copy.exists() {
            fs::copy(file, &copy).map_err(|error| format!("{}: {error}", copy.display()))?;
        }
        Ok(copy)
    }

    fn preload(&self, library: &Path) -> OsString {
        // Its path was checked; that of the temporary folder can only be worse, and then ld.so says so.
        preload::with_library(library, preloaded()).unwrap_or_else(|_| library.into())
    }

    /// When a run that begins now hangs.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.seconds + self.warm_up + HANG_TIMEOUT
    }

    /// Starts the server, then the client, and waits for both.
    pub fn duel(&self, how: &How, mut duel: Duel) -> Result<Ran, String> {
        let deadline = self.deadline();
        self.usage.clear();
        let at_server = |error: String| format!("server: {error}");
        let backend = match duel.backend {
            Some(backend) => Some(self.backend(how, backend, deadline)?),
            None => None,
        };
        let server = self.start(how, End::Server, &mut duel.server)?;
        until_ready(&server, &duel.ready, deadline).map_err(at_server)?;
        let before = server.cpu_so_far();
        let behind = backend.as_ref().map(Process::cpu_so_far);
        let idle = self.daemons_cpu(how);
        let begun = Instant::now();
        let client = self.start(how, End::Client, &mut duel.client)?;
        let client = client
            .succeed(deadline)
            .map_err(|error| format!("client: {error}"))?;
        let wall = begun.elapsed();
        let server = stop(server, duel.stop, deadline).map_err(at_server)?;
        let daemons = self.daemons_cpu(how).saturating_sub(idle);
        let mut cpu = client.cpu + server.cpu.saturating_sub(before) + daemons;
        if let Some((backend, before)) = backend.zip(behind) {
            let ended = stop(backend, Stop::Signal(Signal::TERM), deadline);
            let ended = ended.map_err(|error| format!("backend: {error}"))?;
            cpu += ended.cpu.saturating_sub(before);
        }
        Ok(self.ran(client, cpu, wall))
    }

    fn backend(
        &self,
        how: &How,
        mut backend: Backend,
        deadline: Instant,
    ) -> Result<Process, String> {
        self.take_rights(&mut backend.command)?;
        let process = self.start_as("backend", how, End::Server, &mut backend.command)?;
        until_ready(&process, &backend.ready, deadline)
            .map_err(|error| format!("backend: {error}"))?;
        Ok(process)
    }

    /// What a contender's daemons have used so far.
    fn daemons_cpu(&self, how: &How) -> Duration {
        let hosts = self.hosts.as_ref();
        let ours = how.contender.has_library() || how.contender == Contender::Messages;
        let hosts = hosts.filter(|_| ours);
        hosts.map_or(Duration::ZERO, Hosts::daemons_cpu)
    }

    /// A program that starts both ends itself.
    pub fn solo(&self, how: &How, mut command: Command) -> Result<Ran, String> {
        self.usage.clear();
        let begun = Instant::now();
        let process = self.start(how, End::Client, &mut command)?;
        let ended = process.succeed(self.deadline())?;
        let (cpu, wall) = (ended.cpu, begun.elapsed());
        Ok(self.ran(ended, cpu, wall))
    }

    fn ran(&self, client: Ended, cpu: Duration, wall: Duration) -> Ran {
        Ran {
            output: client.output,
            errors: client.errors,
            cpu,
            wall,
            usage: [End::Server, End::Client].map(|end| self.usage.read(end)),
        }
    }

    /// Starts something that is neither end: a preparation.
    pub fn prepare(&self, command: &mut Command) -> Result<(), String> {
        let log = self.folder.join("prepare");
        let process =
            Process::start(command, &log, &self.guard).map_err(|error| error.to_string())?;
        process.succeed(Instant::now() + PREPARE_TIMEOUT).map(drop)
    }

    /// Starts one end where it belongs.
    pub fn start(&self, how: &How, end: End, command: &mut Command) -> Result<Process, String> {
        self.start_as(end.name(), how, end, command)
    }

    /// The same with a name of its own for what it prints.
    fn start_as(
        &self,
        name: &str,
        how: &How,
        end: End,
        command: &mut Command,
    ) -> Result<Process, String> {
        let log = self.folder.join(name);
        how.placement
            .start(end, || {
                self.at(how, end, || Process::start(command, &log, &self.guard))
            })
            .map_err(|error| {
                let program = command.get_program().to_string_lossy().into_owned();
                format!("cannot start {program}: {error}")
            })
    }
}

/// What the user preloads.
pub fn preloaded() -> Option<OsString> {
    std::env::var_os("LD_PRELOAD")
}

/// Others may look into it: servers run as other users. Only we can write: the names are then ours.
fn create_folder(within: &Path) -> io::Result<PathBuf> {
    let id = std::process::id();
    for attempt in 0..100 {
        let folder = within.join(format!("ulsock-compare-{id}-{attempt}"));
        match DirBuilder::new().mode(0o755).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result.map(|()| folder),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
