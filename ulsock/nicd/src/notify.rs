//! What the service manager wants to hear (sd_notify(3)): that we are ready, and `[F28]` that we are alive.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use netstack::time::Instant;

pub struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// So often it wants to hear of us.
    every: Option<Duration>,
    pub next: Option<Instant>,
}

impl Manager {
    /// `None`: nobody wants to hear anything.
    pub fn find() -> Option<Manager> {
        let limit = std::env::var("WATCHDOG_USEC").ok();
        let limit = limit.and_then(|limit| limit.parse().ok());
        Manager::at(std::env::var_os("NOTIFY_SOCKET")?, limit)
    }

    fn at(name: OsString, limit: Option<u64>) -> Option<Manager> {
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(Manager {
            socket,
            address: address(name)?,
            every: limit.map(|limit| Duration::from_micros(limit / 3)),
            next: None,
        })
    }

    pub fn ready(&mut self, time: Instant) {
        self.say("READY=1");
        self.next = self.every.map(|every| time + every);
    }

    /// If it is time to.
    pub fn tend(&mut self, time: Instant) {
        if self.next.is_some_and(|next| next <= time) {
            self.say("WATCHDOG=1");
            self.next = self.every.map(|every| time + every);
        }
    }

    fn say(&self, what: &str) {
        let _ = self.socket.send_to_addr(what.as_bytes(), &self.address);
    }
}

/// A path, or with an @ in front a name in the abstract namespace.
fn address(name: OsString) -> Option<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
        _ => SocketAddr::from_pathname(name).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_hears_of_us_in_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let heard = UnixDatagram::bind(&path).expect("a socket");
        heard.set_nonblocking(true).expect("a socket");
        let hear = || {
            let mut bytes = [0; 32];
            let length = heard.recv(&mut bytes).ok()?;
            Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
        };
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut manager = Manager::at(path.into(), Some(3_000_000)).expect("a manager");
        manager.ready(at(0));
        assert_eq!(hear().as_deref(), Some("READY=1"));
        manager.tend(at(900));
        assert_eq!((hear(), manager.next), (None, Some(at(1000))));
        manager.tend(at(1200));
        assert_eq!(hear().as_deref(), Some("WATCHDOG=1"));
        assert_eq!(manager.next, Some(at(2200)));
    }
}
