//! Containers that have nothing in common: each has its own network, its own /dev/shm and a run directory there.
//! Only the folder with the door of the host's daemon is mounted into them.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::Deserialize;

use super::{Hosts, allow, wires};
use crate::ends::kernel_only;
use crate::netns::{Mounts, Namespace};
use crate::program::{Program, Running, built};

/// Where the host's daemon listens for those of other hosts; there are none.
const ADDRESS: &str = "10.78.0.1";

/// What `ulsock nicd status` tells about containers.
#[derive(Debug, Deserialize)]
pub struct GuestStatus {
    /// Their programs that are connected.
    pub guests: u64,
    /// Connections whose two ends it has brought together.
    pub introduced: u64,
}

impl Hosts {
    /// Two containers of a host, on its bridge.
    pub fn two_containers() -> Self {
        Self::containers(1)
    }

    /// So many networks, each with two containers that have the same addresses as those of the others: the
    /// first network has numbers 0 and 1, the second 2 and 3.
    pub fn containers(networks: usize) -> Self {
        let mut hosts = Self::unwired(2 * networks);
        let above = Namespace::new().expect("a network namespace");
        let address = format!("link set lo up\naddr add {ADDRESS}/32 dev lo\n");
        above.ip(&address, &hosts.folder.join("ip"));
        hosts.switch = Some(Rc::new(above));
        let run_dir = hosts.run_dir_above();
        fs::create_dir_all(run_dir.join("host")).expect("run directory");
        allow(&run_dir, 0o1777);
        let door = hosts.folder.join("door");
        fs::create_dir(&door).expect("a folder");
        for host in &mut hosts.hosts {
            host.seat = host.number % 2;
            let (own, host_dir) = (host.run_dir.display(), run_dir.display());
            let mounts = Mounts::new(&format!(
                "mount --bind {host_dir}/host {door}
                 mount -t tmpfs -o mode=1777 none /dev/shm
                 mkdir -m 1777 {own}
                 mkdir {own}/host
                 mount --bind {door} {own}/host
                 mount -o remount,bind,ro {own}/host",
                door = door.display()
            ));
            let namespace = Namespace::new().expect("a network namespace");
            let namespace = namespace.with(mounts.expect("a mount namespace"));
            host.namespace = Rc::new(namespace);
        }
        wires::bridges(&hosts, 2);
        let host = format!("addr add {}/24 dev br0\n", hosts.address_above());
        hosts.on_switch(&host);
        if !kernel_only() {
            let key = hosts.command_above("key --key").arg(hosts.key_above());
            let line = format!("{ADDRESS} keys={}", key.run());
            fs::write(hosts.peers(), line).expect("peers file");
            hosts.start_nicd_above();
        }
        hosts
    }

    /// The host's own address on the bridge of the first network.
    pub fn address_above(&self) -> String {
        "10.77.0.100".to_owned()
    }

    /// A program of the host itself, under ulsock. It reports as the container with number `host` does.
    pub fn program_above(&self, host: usize, path: impl AsRef<Path>) -> Program {
        let program = self.program(host, path);
        let above = self.switch.as_ref().expect("a host");
        program
            .env("ULSOCK_RUN_DIR", self.run_dir_above())
            .within(above)
    }

    /// Starts the host's daemon.
    pub fn start_nicd_above(&self) {
        self.run_nicd_above(self.command_above("--key"));
    }

    /// The same, by a script that runs what it is given.
    pub fn start_nicd_above_by(&self, script: &Path) {
        let command = self.program_on_host("/usr/bin/python3");
        let command = command.arg(script).arg(built("ulsock"));
        self.run_nicd_above(command.args("nicd --key"));
    }

    fn run_nicd_above(&self, nicd: Program) {
        let nicd = nicd.arg(self.key_above());
        let mut nicd = nicd.arg("--peers").arg(self.peers()).start();
        nicd.until("it listens", |nicd| nicd.errors().contains("listening at"));
        self.above.replace(Some(nicd));
    }

    /// Kills it, as nobody can prevent.
    pub fn kill_nicd_above(&self) {
        if let Some(nicd) = self.above.take() {
            nicd.stop(libc::SIGKILL);
        }
    }

    /// What it has said since it was started.
    pub fn nicd_above_says(&self) -> String {
        let nicd = self.above.borrow();
        nicd.as_ref().map(Running::errors).unwrap_or_default()
    }

    /// What it says about them.
    pub fn guest_status(&self) -> GuestStatus {
        let text = self.command_above("status --json").run();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    pub(super) fn run_dir_above(&self) -> PathBuf {
        let name = self.folder.file_name().unwrap_or_default();
        let name = format!("{}-above", name.to_string_lossy());
        PathBuf::from("/dev/shm").join(name)
    }

    fn command_above(&self, words: &str) -> Program {
        let program = self.program_on_host(built("ulsock"));
        program.args("nicd").args(words)
    }

    fn program_on_host(&self, path: impl AsRef<Path>) -> Program {
        let number = self.programs.replace(self.programs.get() + 1);
        let log = self.folder.join(format!("nicd-{number:03}-above"));
        let above = self.switch.as_ref().expect("a host");
        let program = Program::new(path.as_ref(), &log).without_ulsock();
        program
            .env("ULSOCK_RUN_DIR", self.run_dir_above())
            .within(above)
    }

    fn key_above(&self) -> PathBuf {
        self.folder.join("key-above")
    }
}
