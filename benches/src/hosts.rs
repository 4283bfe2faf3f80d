//! Two hosts: network namespaces without a name, joined by a veth pair. They are gone when the last
//! descriptor and thread that uses them is.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use netstack::phy::xdp::{self, Mode, Refusal, Steering};
use netstack::phy::{Interface, PacketPort, Port, Reserved, Wanted, Xdp, packet};
use rustix::thread::{
    CpuSet, LinkNameSpaceType, UnshareFlags, move_into_link_name_space, sched_setaffinity,
    unshare_unsafe,
};

use crate::engine::{HostAddress, PORT};

/// The interface of each host.
const INTERFACE: &str = "eth0";
const START_TIMEOUT: Duration = Duration::from_secs(10);

pub struct Namespace(File);

impl Namespace {
    fn new() -> io::Result<Namespace> {
        let make = || {
            // SAFETY: only the network namespace, and only of this thread.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            File::open("/proc/thread-self/ns/net")
        };
        let made = thread::spawn(make).join();
        Ok(Namespace(
            made.map_err(|_| io::Error::other("no namespace"))??,
        ))
    }

    /// Does something there: what is opened stays there.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> io::Result<T> {
        let enter = || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(self.0.as_fd(), kind)?;
            Ok(act())
        };
        match thread::scope(|scope| scope.spawn(enter).join()) {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    fn ip(&self, words: &str) -> io::Result<String> {
        let run = || Command::new("ip").args(words.split(' ')).output();
        let output = self.within(run)??;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(io::Error::other(format!(
                "ip {words}: {}",
                String::from_utf8_lossy(&output.stderr)
            ))),
        }
    }

    /// Some time after both ends are up the kernel still drops all.
    fn wait_until_up(&self) -> io::Result<()> {
        let words = format!("link show dev {INTERFACE}");
        let start = Instant::now();
        while !self.ip(&words)?.contains("state UP") {
            if start.elapsed() > START_TIMEOUT {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// What of ours sits on the interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Packet,
    Xdp,
}

/// Hosts 1 and 2.
pub struct World {
    pub hosts: [Namespace; 2],
}

pub fn ip(host: u8) -> IpAddr {
    Ipv4Addr::new(10, 9, 0, host).into()
}

/// A port at each host.
pub struct Ports {
    pub ports: [Box<dyn Port + Send>; 2],
    /// The kernel stays quiet.
    _reserved: [Reserved; 2],
}

impl Ports {
    /// Where a host's port is.
    pub fn place(&self, host: u8) -> HostAddress {
        HostAddress {
            ip: ip(host),
            ethernet: self.ports[usize::from(host) - 1].capabilities().address,
        }
    }
}

impl World {
    pub fn new() -> io::Result<World> {
        let hosts = [Namespace::new()?, Namespace::new()?];
        let there = format!("/proc/{}/fd/{}", std::process::id(), hosts[1].0.as_raw_fd());
        hosts[0].ip(&format!(
            "link add {INTERFACE} type veth peer name {INTERFACE} netns {there}"
        ))?;
        for (host, number) in hosts.iter().zip(1..) {
            host.ip("link set lo up")?;
            host.ip(&format!("addr add {}/24 dev {INTERFACE}", ip(number)))?;
            host.ip(&format!("link set {INTERFACE} up"))?;
        }
        hosts.iter().try_for_each(Namespace::wait_until_up)?;
        Ok(World { hosts })
    }

    pub fn ports(&self, kind: Kind) -> io::Result<Ports> {
        let open = |host: u8| {
            let place = &self.hosts[usize::from(host) - 1];
            place.within(|| io::Result::Ok((port(kind, host)?, Reserved::new(PORT)?)))?
        };
        let (one, reserved_one) = open(1)?;
        let (other, reserved_other) = open(2)?;
        Ok(Ports {
            ports: [one, other],
            _reserved: [reserved_one, reserved_other],
        })
    }
}

fn port(kind: Kind, host: u8) -> io::Result<Box<dyn Port + Send>> {
    let interface = Interface::find(INTERFACE)?;
    let wanted = Wanted {
        port: PORT,
        addresses: vec![ip(host)],
    };
    if kind == Kind::Packet {
        let port = PacketPort::open(&interface, &wanted, packet::PacketOptions::default())?;
        return Ok(Box::new(port));
    }
    let refused = |why: Refusal| io::Error::other(format!("{why:?}"));
    let mode = Mode::best(&interface);
    let steering = Steering::attach(&interface, &wanted, mode).map_err(refused)?;
    let port = Xdp::open(&Arc::new(steering), xdp::XdpOptions::default())?;
    Ok(Box::new(port))
}

/// This thread stays on one core.
pub fn pin(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}
