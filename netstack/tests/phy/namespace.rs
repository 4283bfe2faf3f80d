//! Two hosts: network namespaces without a name, joined by a veth pair. They are gone when the last
//! descriptor and thread that uses them is, however a test ends.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// The interface of each host.
pub const INTERFACE: &str = "eth0";

#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    fn new() -> Namespace {
        let make = || {
            // SAFETY: only the network namespace, and only of this thread.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("root");
            File::open("/proc/thread-self/ns/net").expect("our namespace")
        };
        Namespace(thread::spawn(make).join().expect("a namespace"))
    }

    /// Does something there: what is opened stays there.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let enter = || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(self.0.as_fd(), kind).expect("the namespace");
            act()
        };
        match thread::scope(|scope| scope.spawn(enter).join()) {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Runs `ip` with these words, and gives what it says.
    pub fn ip(&self, words: &str) -> String {
        let output = self.within(|| {
            let mut command = Command::new("ip");
            let _starting = starting();
            command.args(words.split(' ')).output().expect("ip")
        });
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ip {words}: {complaint}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Frames that the interface itself could not send.
    pub fn dropped(&self) -> u64 {
        let text = self.ip(&format!("-s link show dev {INTERFACE}"));
        // After its number and what it received: bytes, packets, errors, dropped.
        let lines = text.lines().map(str::trim_start);
        let numbers = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        let fourth = |line: &str| line.split_whitespace().nth(3)?.parse::<u64>().ok();
        numbers.skip(2).find_map(fourth).expect("what ip says")
    }

    /// Until the kernel itself can send: some time after both ends are up it still drops all (without
    /// any port of ours, 5 of 60 first datagrams were lost).
    fn wait_until_up(&self) {
        let words = format!("link show dev {INTERFACE}");
        let start = Instant::now();
        while !self.ip(&words).contains("state UP") {
            assert!(start.elapsed() < Duration::from_secs(10));
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// A counter of the kernel's protocols, from a file of pairs of lines like /proc/net/snmp.
    pub fn counter(&self, protocol: &str, name: &str) -> u64 {
        let text = self.within(|| std::fs::read_to_string("/proc/thread-self/net/snmp"));
        let text = text.expect("snmp");
        let prefix = format!("{protocol}: ");
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(&prefix));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let mut pairs = names.split(' ').zip(values.split(' '));
        let (_, value) = pairs.find(|(n, _)| *n == name).expect("the counter");
        value.parse().expect("a number")
    }
}

/// A child that is being started has copies of all descriptors, until it runs its own program; and a
/// little longer: the kernel closes them after it has told the parent that it does.
static STARTING: Mutex<()> = Mutex::new(());

fn starting() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes for good: no child has a copy.
pub fn close<T>(value: T) {
    let _starting = starting();
    drop(value);
}

/// Hosts 1 and 2.
#[derive(Debug)]
pub struct World {
    pub hosts: [Namespace; 2],
}

impl World {
    pub fn new(mtu: usize, queues: usize) -> World {
        let hosts = [Namespace::new(), Namespace::new()];
        let there = format!("/proc/{}/fd/{}", std::process::id(), hosts[1].0.as_raw_fd());
        let shape = format!("mtu {mtu} numtxqueues {queues} numrxqueues {queues}");
        hosts[0].ip(&format!(
            "link add {INTERFACE} {shape} type veth peer name {INTERFACE} {shape} netns {there}"
        ));
        for (host, number) in hosts.iter().zip(1..) {
            host.ip("link set lo up");
            host.ip(&format!("addr add 10.9.0.{number}/24 dev {INTERFACE}"));
            host.ip(&format!("addr add fd09::{number}/64 dev {INTERFACE} nodad"));
            host.ip(&format!("link set {INTERFACE} up"));
        }
        hosts.iter().for_each(Namespace::wait_until_up);
        World { hosts }
    }
}
