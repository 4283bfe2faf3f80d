//! The daemons of the two hosts that ulsock's side runs on: each with a key of its own, and one list of peers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::guard::Guard;
use super::namespace::Namespace;
use super::process::Process;
use super::user;
use crate::failure::Failure;

/// How long the link between them may take to come up.
const LINK_UP_TIMEOUT: Duration = Duration::from_secs(10);

/// What engines inside programs may have of the NIC.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ProgramsPort {
    /// UDP sockets, as any program can.
    Sockets,
    /// A queue each.
    Queue,
}

/// They end when this is dropped.
pub struct Daemons {
    running: Vec<Process>,
}

/// Where a daemon runs.
pub struct Place<'a> {
    pub namespace: &'a Namespace,
    pub address: &'a str,
    pub run_dir: PathBuf,
}

impl Daemons {
    /// Returns when the link is up. `folder` is for their files.
    pub fn start(
        folder: &Path,
        places: &[Place<'_>],
        port: ProgramsPort,
        guard: &Rc<Guard>,
    ) -> Result<Daemons, Failure> {
        let failed =
            |why: String| Failure::setup(format!("compare --hosts cannot start nicd: {why}"));
        let running =
            start(folder, places, port, guard).map_err(|error| failed(error.to_string()))?;
        let deadline = Instant::now() + LINK_UP_TIMEOUT;
        for process in &running {
            let is_up = || process.errors().contains("link up");
            process
                .until("its link was up", deadline, is_up)
                .map_err(failed)?;
        }
        Ok(Daemons { running })
    }

    /// CPU time of all so far.
    pub fn cpu(&self) -> Duration {
        self.running.iter().map(Process::cpu_so_far).sum()
    }
}

fn start(
    folder: &Path,
    places: &[Place<'_>],
    port: ProgramsPort,
    guard: &Rc<Guard>,
) -> io::Result<Vec<Process>> {
    let key = |place: &Place<'_>| folder.join(format!("key-{}", place.address));
    let peers = folder.join("peers");
    let mut lines = String::new();
    for place in places {
        let public = make_key(&key(place))?;
        lines += &format!("{} keys={public}\n", place.address);
    }
    fs::write(&peers, lines)?;
    let start_one = |place: &Place<'_>| {
        let mut command = nicd()?;
        command.arg("--peers").arg(&peers);
        command.arg("--key").arg(key(place));
        if port == ProgramsPort::Queue {
            // Own programs are of our own user.
            let own = rustix::process::geteuid().as_raw();
            let users = [Some(own), user::for_servers().map(|user| user.uid)];
            let users: Vec<String> = users.iter().flatten().map(u32::to_string).collect();
            command.arg("--lease-to").arg(users.join(","));
        }
        command.env("ULSOCK_RUN_DIR", &place.run_dir);
        let log = folder.join(format!("nicd-{}", place.address.replace('.', "-")));
        let start = || Process::start(&mut command, &log, guard);
        place.namespace.enter(start)
    };
    places.iter().map(start_one).collect()
}

/// The public key.
fn make_key(file: &Path) -> io::Result<String> {
    let output = nicd()?.args(["key", "--key"]).arg(file).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )),
    }
}

fn nicd() -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("nicd");
    Ok(command)
}
