//! What ulsock needs of the kernel and of a process's limits, tried with the same code that connections
//! use; and what it chooses by itself. For `ulsock doctor`: no hook comes here.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use rustix::process::geteuid;

use os::{diag, memory, tcp, users};
use rendezvous::channel::Channel;
use rendezvous::offers::OffersTable;
use rendezvous::rundir::{HOST, HOST_DOOR, RunDir, RunDirError};
use shm::layout::{self, Layout};
use shm::segment::Segment;
use sockets::facts;

/// The first kernel with all that we need: `SO_NETNS_COOKIE` is the youngest.
const FIRST_KERNEL: (u32, u32) = (5, 14);

/// Something that we need.
pub struct Probe {
    pub what: &'static str,
    /// What was found; or what is wrong, and its cure.
    pub found: Result<String, String>,
}

/// All of them, the most basic first.
pub fn all() -> Vec<Probe> {
    let probe = |what, found| Probe { what, found };
    vec![
        probe("kernel", kernel()),
        probe("shared memory (memfd, seals)", shared_memory()),
        probe("socket identity (SO_COOKIE, sock_diag)", identity()),
        probe("barriers (membarrier)", barriers()),
        probe("user", user()),
        probe("limits", process_limits()),
    ]
}

/// Data calls on a connection before it is upgraded, if that is left to us: of the first ones, and the
/// least and the most that are chosen later.
pub fn upgrade_calls() -> [u32; 3] {
    facts::calls_before_upgrade()
}

/// Can our user's table of offers be used? Who takes its name first, and is another user, keeps us from it.
pub fn table_of_offers(dir: &RunDir) -> Result<(), RunDirError> {
    OffersTable::own(dir).map(drop).map_err(RunDirError::Offers)
}

/// What there is of the daemon that introduces programs of different containers; `None`: nothing.
pub fn host_daemon(dir: &RunDir) -> Option<&'static str> {
    dir.folder_has(HOST, HOST_DOOR).then(|| {
        let channel = Channel::connect_to_host(dir).ok();
        match (
            channel.is_some(),
            facts::trusted_daemon(dir, channel).is_some(),
        ) {
            (false, _) => "nobody answers: nicd does not run on the host",
            (true, false) => "not root's, nor yours: it is not trusted",
            (true, true) => "answers, and introduces programs of different containers",
        }
    })
}

fn kernel() -> Result<String, String> {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|text| text.parse::<u32>().ok());
    let (major, minor) = FIRST_KERNEL;
    match (number(), number()) {
        (Some(found), Some(least)) if (found, least) < FIRST_KERNEL => Err(format!(
            "Linux {release} is too old: ulsock needs {major}.{minor} or later"
        )),
        _ => Ok(format!("Linux {release}")),
    }
}

fn shared_memory() -> Result<String, String> {
    let size = Layout::new(layout::SMALL).map_or(0, |layout| layout.size() as u64);
    match Segment::create(size) {
        Ok(_) => Ok("a segment can be made".to_owned()),
        Err(error) => Err(format!(
            "no segment can be made ({error}): allow memfd_create and its seals, and files and \
             mappings of that size"
        )),
    }
}

/// Asks who is at the other end of a connection with ourselves, as both ends of every upgrade do.
fn identity() -> Result<String, String> {
    let ask = || -> std::io::Result<bool> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let here = TcpStream::connect(listener.local_addr()?)?;
        let (there, _) = listener.accept()?;
        let found = diag::other_end(&here.local_addr()?, &here.peer_addr()?)?;
        let cookie = tcp::cookie(there.as_fd())?;
        tcp::netns_cookie(there.as_fd())?;
        Ok(found.is_some_and(|end| end.cookie == cookie && end.uid == geteuid().as_raw()))
    };
    match ask() {
        Ok(true) => Ok("the kernel says who is at the other end".to_owned()),
        Ok(false) => Err(
            "sock_diag does not know the other end of a connection: load the kernel module \
             tcp_diag"
                .to_owned(),
        ),
        Err(error) => Err(format!(
            "cannot be asked ({error}): load the kernel module tcp_diag, or allow netlink sockets \
             in this container"
        )),
    }
}

fn barriers() -> Result<String, String> {
    match memory::has_barriers() {
        true => Ok("expedited".to_owned()),
        false => Err("the kernel has none: it must be built with CONFIG_MEMBARRIER".to_owned()),
    }
}

fn user() -> Result<String, String> {
    let uid = geteuid().as_raw();
    match users::names_one_user(uid) {
        true => Ok(format!("uid {uid}")),
        false => Err(format!(
            "uid {uid} stands for every user that this namespace does not map: run as a mapped one"
        )),
    }
}

fn process_limits() -> Result<String, String> {
    match facts::limits_are_too_low() {
        false => Ok("address space unlimited, enough descriptors".to_owned()),
        true => Err(
            "address space or data is limited (ulimit -v, -d; systemd's LimitAS, LimitDATA), or \
             there are fewer than 64 descriptors (ulimit -n): lift that"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_it_all() {
        for probe in all() {
            assert!(probe.found.is_ok(), "{}: {:?}", probe.what, probe.found);
        }
        let [first, least, most] = upgrade_calls();
        assert!(least < first && first < most);
    }
}
