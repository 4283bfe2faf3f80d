//! What nicd can still do after `caps::settle`, in processes of their own (without the test harness, whose
//! threads are in the way): both kinds of ports open, and nothing else that root may do goes.

use std::fs;
use std::io::ErrorKind;
use std::process::Command;
use std::sync::Arc;

use netstack::phy::xdp::{self, Mode, Steering};
use netstack::phy::{Interface, PacketPort, Wanted, Xdp, packet};
use rustix::io::Errno;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use ulsock_nicd::caps::{self, User};

/// Who the process is to become; set for those that are to become somebody.
const AS: &str = "CAPS_AS";

/// A file that nobody can read but a user who takes no part.
const OTHERS: &str = "CAPS_OTHERS";
const OTHER: u32 = 2;

/// CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF (linux/capability.h).
const KEPT: u64 = 1 << 12 | 1 << 13 | 1 << 39;

fn main() {
    match std::env::var(AS) {
        Ok(name) => settled(&name),
        Err(_) => ["root", "daemon"].into_iter().for_each(play),
    }
}

fn play(name: &str) {
    let me = std::env::current_exe().expect("ourselves");
    let others = tempfile::NamedTempFile::new().expect("a file");
    std::os::unix::fs::chown(others.path(), Some(OTHER), None).expect("its owner");
    let mut child = Command::new(me);
    let status = child
        .env(AS, name)
        .env(OTHERS, others.path())
        .status()
        .expect("a process");
    assert!(status.success(), "as {name}: {status}");
    println!("caps as {name} ... ok");
}

fn settled(name: &str) {
    // SAFETY: only the network namespace, and no other thread is there.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("root");
    ip("link add eth0 type veth peer name eth1");
    ip("link set eth0 up");

    let user = (name != "root").then(|| User::find(name).expect("the user"));
    let missing = caps::settle(user).expect("all can be given up");
    assert!(missing.is_empty(), "{missing}");

    check_status(user.map_or(0, |user| user.uid));
    let others = fs::read(std::env::var_os(OTHERS).expect("a file"));
    assert_eq!(others.unwrap_err().kind(), ErrorKind::PermissionDenied);
    // SAFETY: only the network namespace, and no other thread is there. Without the capability it fails.
    let namespace = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
    assert_eq!(namespace, Err(Errno::PERM));
    open_ports();
}

fn check_status(uid: u32) {
    let status = fs::read_to_string("/proc/thread-self/status").expect("status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.expect(name).trim().to_owned()
    };
    let set = |name: &str| u64::from_str_radix(&field(name), 16).expect(name);
    for name in ["CapEff:", "CapPrm:", "CapBnd:"] {
        assert_eq!(set(name), KEPT, "{name}");
    }
    for name in ["CapInh:", "CapAmb:"] {
        assert_eq!(set(name), 0, "{name}");
    }
    assert_eq!(field("NoNewPrivs:"), "1");
    let uids: Vec<u32> = field("Uid:")
        .split_whitespace()
        .map(|uid| uid.parse().expect("uid"))
        .collect();
    assert_eq!(uids, [uid; 4]);
}

fn open_ports() {
    let interface = Interface::find("eth0").expect("the interface");
    let wanted = Wanted {
        port: 4690,
        addresses: Vec::new(),
    };
    PacketPort::open(&interface, &wanted, packet::PacketOptions::default()).expect("a packet port");
    for mode in [Mode::Generic, Mode::Native] {
        let steering = Steering::attach(&interface, &wanted, mode).expect("the program");
        Xdp::open(&Arc::new(steering), xdp::XdpOptions::default()).expect("an XDP port");
    }
}

fn ip(words: &str) {
    let status = Command::new("ip")
        .args(words.split(' '))
        .status()
        .expect("ip");
    assert!(status.success(), "ip {words}");
}
