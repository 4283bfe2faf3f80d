//! The bare chain: program, daemon, wire, daemon, program, four processes with nothing but what it takes. Each
//! program has a bare ring to its daemon, an eventfd wakes the one that sleeps, and the daemons send what they find as
//! frames, without a protocol: between two namespaces none gets lost. `ulsock compare --hosts` holds connections
//! that the daemons carry against it.
//!
//! The two programs meet at a Unix socket, and tell each other where their ports are.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use netstack::phy::{Interface, PacketPort, Port, Reserved, Wanted, packet};
use netstack::time::Instant;
use netstack::wire::Addresses;
use netstack::wire::frame::{Ecn, Offload, Route};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::process::{Pid, Signal, WaitOptions, set_parent_process_death_signal, waitpid};

use crate::ring;

const INTERFACE: &str = "eth0";
/// Beside that of the daemons proper.
const UDP: u16 = 4950;
/// Before the bytes of a frame: how many they are. None: the end.
const HEAD: usize = 2;

/// A program's end.
pub struct ChainEnd {
    ring: ring::RingEnd,
    bell: OwnedFd,
    daemon: OwnedFd,
    child: Pid,
}

impl ChainEnd {
    /// `host` is the server's address, also for itself; `first`: says first where it is.
    pub fn open(host: &str, peer: &UnixStream, first: bool) -> io::Result<ChainEnd> {
        let port = Wire::open(host, peer, first)?;
        let (ours, theirs) = ring::pair()?;
        let bell = || eventfd(0, EventfdFlags::CLOEXEC);
        let (bell, daemon) = (bell()?, bell()?);
        // SAFETY: this process has one thread.
        let child = unsafe { libc::fork() };
        if child < 0 {
            return Err(io::Error::last_os_error());
        }
        let Some(child) = Pid::from_raw(child) else {
            // The other end's is not ours to finish.
            std::mem::forget(ours);
            let daemon = Daemon {
                ring: theirs,
                wire: port,
                bell: daemon,
                program: bell,
            };
            let status = daemon.serve().map_or(1, |()| 0);
            std::process::exit(status);
        };
        std::mem::forget(theirs);
        Ok(ChainEnd {
            ring: ours,
            bell,
            daemon,
            child,
        })
    }

    pub fn finish(&self) {
        self.ring.finish();
        let _ = ring_bell(&self.daemon);
    }
}

impl Drop for ChainEnd {
    fn drop(&mut self) {
        self.finish();
        // It says so to the peer before it ends.
        let _ = waitpid(Some(self.child), WaitOptions::empty());
    }
}

impl Read for ChainEnd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // Before the look: what comes after it is not the last.
            let last = self.ring.has_finished();
            let length = self.ring.pull(buffer)?;
            if length > 0 || last {
                return Ok(length);
            }
            answer(&self.bell)?;
        }
    }
}

impl Write for ChainEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let length = self.ring.push(bytes)?;
            if length > 0 {
                ring_bell(&self.daemon)?;
                return Ok(length);
            }
            std::thread::yield_now();
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn ring_bell(bell: &OwnedFd) -> io::Result<()> {
    rustix::io::write(bell, &1u64.to_ne_bytes())?;
    Ok(())
}

/// Sleeps until it rings.
fn answer(bell: &OwnedFd) -> io::Result<()> {
    rustix::io::read(bell, &mut [0; 8])?;
    Ok(())
}

/// A port, and the way to the other one.
struct Wire {
    port: PacketPort,
    route: Route,
    /// The kernel stays quiet.
    _reserved: Reserved,
}

impl Wire {
    fn open(host: &str, peer: &UnixStream, first: bool) -> io::Result<Wire> {
        let probe = UdpSocket::bind(("0.0.0.0", 0))?;
        probe.connect((host, UDP))?;
        let ip = probe.local_addr()?.ip();
        let interface = Interface::find(INTERFACE)?;
        let wanted = Wanted {
            port: UDP,
            addresses: vec![ip],
        };
        let port = PacketPort::open(&interface, &wanted, packet::PacketOptions::default())?;
        let here = (port.capabilities().address, ip);
        let there = meet(here, peer, first)?;
        let addresses = Addresses {
            source: (here.1, UDP).into(),
            destination: (there.1, UDP).into(),
        };
        let route = Route::new(here.0, there.0, &addresses);
        Ok(Wire {
            port,
            route: route.ok_or(ErrorKind::Unsupported)?,
            _reserved: Reserved::new(UDP)?,
        })
    }

    /// Bytes that a frame can carry.
    fn room(&self) -> usize {
        self.port.capabilities().frame() - self.route.overhead() - HEAD
    }

    fn post(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (overhead, length) = (self.route.overhead(), HEAD + bytes.len());
        loop {
            let Some(slot) = self.port.slot() else {
                self.flush()?;
                continue;
            };
            slot[overhead..overhead + HEAD].copy_from_slice(&(bytes.len() as u16).to_le_bytes());
            slot[overhead + HEAD..overhead + length].copy_from_slice(bytes);
            let frame = &mut slot[..overhead + length];
            self.route
                .emit(frame, Ecn::Capable, length, Offload::default());
            self.port.commit(overhead + length);
            return Ok(());
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.port.flush(NOW);
        flushed.map_err(|trouble| io::Error::other(format!("{trouble:?}")))
    }
}

/// Ports of this kind do not ask.
const NOW: Instant = Instant::from_nanos(0);

type PortAddress = ([u8; 6], IpAddr);

/// Tells where we are, and hears where the other end is.
fn meet(here: PortAddress, mut peer: &UnixStream, first: bool) -> io::Result<PortAddress> {
    let say = |mut peer: &UnixStream| {
        let hardware = u64::from_le_bytes(
            [&here.0[..], &[0; 2]]
                .concat()
                .try_into()
                .unwrap_or_default(),
        );
        writeln!(peer, "{hardware} {}", here.1)
    };
    if first {
        say(peer)?;
    }
    let mut line = String::new();
    BufReader::new(&mut peer).read_line(&mut line)?;
    if !first {
        say(peer)?;
    }
    let place = line.trim().split_once(' ').and_then(|(hardware, ip)| {
        let hardware: u64 = hardware.parse().ok()?;
        let bytes = hardware.to_le_bytes();
        Some((bytes[..6].try_into().ok()?, ip.parse().ok()?))
    });
    place.ok_or(ErrorKind::InvalidData.into())
}

struct Daemon {
    ring: ring::RingEnd,
    wire: Wire,
    bell: OwnedFd,
    program: OwnedFd,
}

impl Daemon {
    fn serve(mut self) -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        loop {
            // Before the look: what comes after it is not the last.
            let last = self.ring.has_finished();
            self.send()?;
            if last {
                self.wire.post(&[])?;
                return self.wire.flush();
            }
            self.receive()?;
            self.sleep()?;
        }
    }

    fn send(&mut self) -> io::Result<()> {
        let mut bytes = vec![0; self.wire.room()];
        loop {
            let length = self.ring.pull(&mut bytes)?;
            if length == 0 {
                return self.wire.flush();
            }
            self.wire.post(&bytes[..length])?;
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let overhead = self.wire.route.overhead();
        let mut came = false;
        while let Some(frame) = self.wire.port.receive(NOW) {
            came = true;
            let Some((head, rest)) = frame.bytes[overhead..].split_first_chunk::<HEAD>() else {
                continue;
            };
            let mut bytes = &rest[..rest.len().min(u16::from_le_bytes(*head).into())];
            if bytes.is_empty() {
                self.ring.finish();
            }
            while !bytes.is_empty() {
                bytes = &bytes[self.ring.push(bytes)?..];
            }
        }
        match came {
            true => ring_bell(&self.program),
            false => Ok(()),
        }
    }

    fn sleep(&self) -> io::Result<()> {
        let wake = self.wire.port.wake().ok_or(ErrorKind::Unsupported)?;
        let mut fds = [
            PollFd::from_borrowed_fd(wake, PollFlags::IN),
            PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN),
        ];
        poll(&mut fds, None)?;
        match fds[1].revents().is_empty() {
            true => Ok(()),
            false => answer(&self.bell),
        }
    }
}
