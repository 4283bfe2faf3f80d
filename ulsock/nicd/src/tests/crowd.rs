//! One daemon among many hosts: how long it takes to meet them all, what memory it takes, and what it sends and computes when
//! nobody needs anything. The others are simulated by one thread, which has all their addresses and keys, and speaks with
//! the daemon as theirs would.
//!
//! `NICD_TEST_HOSTS=1000` makes it a thousand, and prints the figures (with `--release` those of what is shipped):
//! `NICD_TEST_HOSTS=1000 cargo test --release -p ulsock_nicd --lib tests::crowd -- --nocapture`

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::world::{World, eventually};
use crate::clock::now;
use crate::identity::Identity;
use crate::peer_messages::{PeerMessage, VERSION};
use crate::peers::Peers;
use crate::secure::{Secure, dial};
use crate::set::{Set, Source};

/// So many in an ordinary run.
const HOSTS: usize = 150;
/// While nobody needs anything.
const QUIET: Duration = Duration::from_secs(4);
/// What the daemon takes of its own memory, without the kernel's sockets; and that for each host.
const MEMORY: u64 = 8 << 20;
const MEMORY_EACH: u64 = 6 << 10;
/// In which /proc counts CPU time.
const TICK: Duration = Duration::from_millis(10);
/// The others ask as seldom as a daemon with a thousand peers.
const PATIENCE: Duration = Duration::from_secs(100);
/// A second: an unused channel is asked after now and then, by either side, and answers.
const MOST_PACKETS: f64 = 60.0;

/// Who calls whom, by the addresses: the one with the lower one is quicker.
#[derive(Clone, Copy, Debug)]
enum Calls {
    /// The daemon has been started anew among hosts that had been in touch.
    Daemon,
    /// All others call it at the same moment.
    Others,
}

impl Calls {
    fn address(self, number: usize) -> IpAddr {
        let net = match self {
            Calls::Daemon => 10,
            Calls::Others => 8,
        };
        [10, net, (number >> 8) as u8, number as u8].into()
    }
}

#[test]
fn a_daemon_that_calls_many() {
    measure(Calls::Daemon);
}

#[test]
fn a_daemon_that_many_call() {
    measure(Calls::Others);
}

fn count() -> usize {
    let named = std::env::var("NICD_TEST_HOSTS").ok();
    named.map_or(HOSTS, |it| it.parse().expect("a number of hosts"))
}

fn measure(calls: Calls) {
    let others = count() - 1;
    take_descriptors();
    let mut world = World::wired();
    let crowd = Crowd::new(&world, calls, others);
    let folder = world.folder.path();
    let [daemon, there] = &mut world.hosts;
    let ended = &AtomicBool::new(false);
    thread::scope(|scope| {
        let there = &*there;
        scope.spawn(move || there.within(|| crowd.live(ended)));
        let _end = Ends(ended);
        let start = Instant::now();
        daemon.start(folder, "packet");
        let ready = eventually("it answers", || daemon.status().map(|_| start.elapsed()));
        let met = eventually("all are in touch", || {
            thread::sleep(Duration::from_millis(20));
            let peers = daemon.status()?.peers;
            let met = peers.iter().filter(|peer| peer.in_touch).count();
            (met == others).then(|| start.elapsed())
        });
        let pid = daemon.pid().as_raw_nonzero().get();
        thread::sleep(QUIET);
        let before = Use::of(pid);
        thread::sleep(QUIET);
        let used = Use::of(pid);
        let each_second = |now: u64, before: u64| (now - before) as f64 / QUIET.as_secs_f64();
        let packets = each_second(used.packets, before.packets);
        let (bytes, ticks) = (
            each_second(used.bytes, before.bytes),
            each_second(used.ticks, before.ticks),
        );
        println!(
            "{calls:?}, {others} others: answers after {ready:.1?}, all in touch after {met:.1?}; {} KiB of its own \
             memory, {} descriptors; when quiet, in each second {packets:.1} packets, {bytes:.0} bytes, {:.1} ms of \
             CPU time",
            used.memory >> 10,
            used.descriptors,
            ticks * TICK.as_secs_f64() * 1e3
        );
        assert!(packets < MOST_PACKETS, "{packets} packets a second");
        let most = MEMORY + MEMORY_EACH * others as u64;
        assert!(used.memory < most, "{} bytes of memory", used.memory);
        let peers = daemon.status().expect("its status").peers;
        assert!(peers.iter().all(|peer| peer.in_touch), "some are lost");
    });
}

fn take_descriptors() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let all = Rlimit {
        current: maximum,
        maximum,
    };
    let _ = setrlimit(Resource::Nofile, all);
}

/// The crowd goes home, also if a test has failed.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a process has used so far.
struct Use {
    /// Sent and received in its network.
    packets: u64,
    bytes: u64,
    ticks: u64,
    /// Of its own.
    memory: u64,
    descriptors: usize,
}

impl Use {
    fn of(pid: i32) -> Use {
        let file = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).expect(name);
        let device = file("net/dev");
        let device = device
            .lines()
            .find_map(|it| it.trim().strip_prefix("eth0:"));
        let counters = numbers(device.expect("eth0"));
        let stat = file("stat");
        let times = numbers(stat.rsplit(')').next().expect("times"));
        let status = file("status");
        let memory = status.lines().find_map(|it| it.strip_prefix("RssAnon:"));
        Use {
            bytes: counters[0] + counters[8],
            packets: counters[1] + counters[9],
            ticks: times[10] + times[11],
            memory: numbers(memory.expect("RssAnon"))[0] << 10,
            descriptors: fs::read_dir(format!("/proc/{pid}/fd"))
                .expect("its fds")
                .count(),
        }
    }
}

fn numbers(text: &str) -> Vec<u64> {
    let words = text.split_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

/// All other hosts.
struct Crowd {
    peers: Peers,
    /// By the index of the peer; the daemon's own place has none.
    members: HashMap<IpAddr, Identity>,
    calls: Calls,
}

impl Crowd {
    /// Writes the peers file, and gives them their addresses.
    fn new(world: &World, calls: Calls, others: usize) -> Crowd {
        let file = world.folder.path().join("peers");
        let text = fs::read_to_string(&file).expect("the peers file");
        let mut text = format!("{}\n", text.lines().next().expect("the daemon's line"));
        let mut members = HashMap::new();
        for number in 1..=others {
            let (address, identity) = (calls.address(number), Identity::generate().expect("a key"));
            text += &format!("{address} keys={} name=host{number}\n", identity.public());
            members.insert(address, identity);
        }
        fs::write(&file, &text).expect("to write it");
        let [near, far] = &world.hosts;
        let net = calls.address(0);
        far.ip(&format!("route add local {net}/16 dev lo"));
        near.ip(&format!("route add {net}/16 via 10.9.0.2"));
        let peers = Peers::parse(&text).expect("good peers");
        Crowd {
            peers,
            members,
            calls,
        }
    }

    /// Takes calls, and makes them, until it is over.
    fn live(&self, ended: &AtomicBool) {
        let listener = TcpListener::bind("0.0.0.0:4690").expect("to listen");
        listener.set_nonblocking(true).expect("a listener");
        let set = Set::new().expect("a set");
        set.add(Source::Listener, listener.as_fd())
            .expect("the listener");
        let mut channels: HashMap<u32, Channel> = HashMap::new();
        let mut next = 0;
        let mut calls_at = matches!(self.calls, Calls::Others).then(Instant::now);
        while !ended.load(Ordering::Relaxed) {
            let until = now() + Duration::from_millis(20);
            let mut new = Vec::new();
            for source in set.wait(now(), Some(until)) {
                match source {
                    Source::Listener => new.extend(self.accept(&listener)),
                    Source::Host(number) => {
                        let channel = channels.get_mut(&number);
                        if channel.is_some_and(|it| !it.goes_on(&set, number)) {
                            channels.remove(&number);
                        }
                    }
                    _ => {}
                }
            }
            if calls_at.is_some_and(|at| at <= Instant::now()) {
                let open: Vec<IpAddr> = channels.values().map(|it| it.member).collect();
                new.extend(self.call(&open));
                calls_at = Some(Instant::now() + Duration::from_millis(500));
            }
            for channel in new {
                next += 1;
                set.watch(Source::Host(next), channel.secure.fd(), true)
                    .expect("to watch it");
                channels.insert(next, channel);
            }
        }
    }

    fn accept(&self, listener: &TcpListener) -> Option<Channel> {
        let (stream, _) = listener.accept().ok()?;
        let member = stream.local_addr().ok()?.ip();
        let own = self.members.get(&member)?;
        let secure = Secure::accept(stream, own, &self.peers, Instant::now()).ok()?;
        Some(Channel::new(member, secure))
    }

    /// Those who have no channel.
    fn call(&self, open: &[IpAddr]) -> Vec<Channel> {
        let daemon = self.peers.get(0).expect("the daemon");
        let missing = self
            .members
            .iter()
            .filter(|(member, _)| !open.contains(member));
        let call = |(member, own): (&IpAddr, &Identity)| {
            let me = self.peers.get(self.peers.at(*member)?)?;
            let stream = dial(me, daemon).ok()?;
            let secure = Secure::connect(stream, own, daemon, Instant::now()).ok()?;
            Some(Channel::new(*member, secure))
        };
        missing.filter_map(call).collect()
    }
}

/// One end of a channel, as a daemon has it.
struct Channel {
    member: IpAddr,
    secure: Secure,
}

impl Channel {
    fn new(member: IpAddr, mut secure: Secure) -> Channel {
        let hello = PeerMessage::Hello {
            version: VERSION,
            life: 7,
            engines: 1,
        };
        for message in [hello, PeerMessage::NamesTold] {
            secure.send(&message.encode()).expect("room");
        }
        secure.be_patient(PATIENCE);
        Channel { member, secure }
    }

    fn goes_on(&mut self, set: &Set, number: u32) -> bool {
        if self.secure.progress(Instant::now()).is_err() {
            set.remove(self.secure.fd());
            return false;
        }
        while self.secure.recv().is_some() {}
        let wants = self.secure.wants_write();
        set.rewatch(Source::Host(number), self.secure.fd(), wants)
            .is_ok()
    }
}
