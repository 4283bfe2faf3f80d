//! A server, what it asks in its turn, and its client: how to see that a server can be asked, and how it ends.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::process::{Ended, Process};
use super::procfs;

/// A server that ends by itself gets this long before it is asked to.
const GRACE: Duration = Duration::from_millis(300);

/// What shows that a server can be asked.
pub enum Ready {
    /// Somebody listens on this port.
    Port(u16),
    /// This Unix socket exists.
    Path(PathBuf),
    /// It has said this on stderr.
    Says(&'static str),
    /// It, or a process that it started, listens somewhere.
    Listener,
}

/// How a server ends.
#[derive(Clone, Copy)]
pub enum Stop {
    /// By itself, when its client has gone.
    Itself,
    Signal(Signal),
    /// By itself, or by SIGTERM if it does not.
    Either,
}

/// What a server asks in its turn: of the server's end, and started before it.
pub struct Backend {
    pub command: Command,
    pub ready: Ready,
}

/// A server and its client.
pub struct Duel {
    pub backend: Option<Backend>,
    pub server: Command,
    pub ready: Ready,
    pub client: Command,
    pub stop: Stop,
}

/// Waits until the server can be asked.
pub fn until_ready(server: &Process, sign: &Ready, deadline: Instant) -> Result<(), String> {
    let ready = || match sign {
        Ready::Port(port) => procfs::listens(server.id(), *port),
        Ready::Path(path) => procfs::listens_at(server.id(), path),
        Ready::Says(text) => server.errors().contains(text),
        Ready::Listener => procfs::has_listener(server.id()),
    };
    server.until("it listens", deadline, ready)
}

/// Waits for the server's end. Only a server that ends by itself must do so with success.
pub fn stop(server: Process, how: Stop, deadline: Instant) -> Result<Ended, String> {
    match how {
        Stop::Itself => return server.succeed(deadline),
        Stop::Signal(signal) => server.signal(signal),
        Stop::Either if server.ends_before(Instant::now() + GRACE) => {}
        Stop::Either => server.signal(Signal::TERM),
    }
    server.end(deadline)
}
