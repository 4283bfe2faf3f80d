//! The daemon itself: everything that it has, and the loop that serves it.
//!
//! One thread. While there is something to do it polls its engines, and looks at everything else now and
//! then; else it lies down, looks once more at what programs may have posted meanwhile, and sleeps in one
//! epoll set until something comes or is due.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use netstack::phy::Reserved;
use netstack::phy::route::{Routes, Watch};
use netstack::time::Instant;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::broker::Broker;
use super::caller::Caller;
use super::clock::now;
use super::connections::Connections;
use super::door::Door;
use super::engines::{Engines, MOST_ENGINES};
use super::host::Host;
use super::identity::Identity;
use super::idle_spin::IdleSpin;
use super::impair::Impairment;
use super::interface::{self, Interface, Make, PortKind};
use super::notify::Manager;
use super::peers::{Peer, Peers};
use super::program::Program;
use super::roster::{PeersFrom, Roster};
use super::say;
use super::services::Services;
use super::set::{Set, Source};
use super::shares::Shares;
use super::signals;
use super::store::Store;
use os::pid;
use rendezvous::rundir::RunDir;
use shm::waiter::{self, Waiter};

/// Polls between two looks at everything else.
const POLLS: u32 = 16;
/// Between two looks for what nobody tells.
const SWEEP: Duration = Duration::from_secs(1);
/// After the wish to stop: for those who have left their connections to us.
const FAREWELL: Duration = Duration::from_secs(3);

pub struct Options<'a> {
    pub run_dir: &'a Path,
    pub peers: PeersFrom,
    pub identity: Identity,
    pub port: PortKind,
    /// For [`PortKind::Ivshmem`].
    pub device: PathBuf,
    /// For tests.
    pub impairment: Option<Impairment>,
    /// Users whose programs may have a queue of their own.
    pub lease_to: Vec<u32>,
    /// One to [`MOST_ENGINES`].
    pub engines: usize,
    /// Where names are kept; `None`: the daemons tell each other.
    pub store: Option<Box<dyn Store>>,
}

/// So many engines, if such ports can have them.
fn reserve(engines: usize, kind: PortKind, udp: u16) -> Result<Engines, String> {
    match (engines, kind) {
        (1, _) | (2..=MOST_ENGINES, PortKind::Packet) => Engines::reserve(engines, udp),
        // An XDP program of an interface, and a device of shared memory, have one owner.
        (2..=MOST_ENGINES, _) => Err("more than one engine needs --port packet".to_owned()),
        _ => Err(format!("there can be 1 to {MOST_ENGINES} engines")),
    }
}

pub struct Nicd {
    pub(super) set: Set,
    pub(super) door: Door,
    pub(super) listener: TcpListener,
    signals: OwnedFd,
    pub(super) identity: Identity,
    pub(super) roster: Roster,
    pub(super) peers: Peers,
    /// Ourselves, as the peers file has it.
    pub(super) me: Peer,
    /// All hosts that there have been, and the place here of each peer; our own has none.
    pub(super) hosts: Vec<Host>,
    pub(super) by_peer: Vec<Option<usize>>,
    /// Daemons that have connected, and not proved yet who they are.
    pub(super) callers: HashMap<u32, Caller>,
    pub(super) kernel_routes: Routes,
    pub(super) watch: Watch,
    pub(super) make: Make,
    pub(super) lease_to: Vec<u32>,
    /// Our UDP port is nobody else's.
    _reserved: Reserved,
    /// The first serves these; the others have ports of their own.
    pub(super) engines: Engines,
    pub(super) interfaces: Vec<Interface>,
    pub(super) programs: HashMap<u32, Program>,
    /// Those of them that have blocks.
    pub(super) with_blocks: Vec<u32>,
    pub(super) shares: Shares,
    /// Whose turn was over before all was heard that they had sent.
    pub(super) unfinished: HashSet<Source>,
    /// Doors where nobody could be let in: they are opened at the next sweep.
    shut: Vec<Source>,
    /// For programs in containers.
    pub(super) broker: Option<Broker>,
    /// Names of programs, here and on other hosts, once we serve.
    pub(super) services: Option<Services>,
    /// Until we serve.
    pub(super) store: Option<Box<dyn Store>>,
    pub(super) connections: Connections,
    pub(super) waiter: &'static Waiter,
    /// Of this process: the peers know another one by it.
    pub(super) life: u64,
    pub(super) next_number: u32,
    pub(super) next_name: u64,
    pub(super) idle_spin: IdleSpin,
    sweep_at: Instant,
    /// When an acknowledgement may be overdue for somebody for whom we speak.
    pub(super) orphans_at: Option<Instant>,
    /// We shall stop, at this time at the latest.
    pub(super) stop_by: Option<Instant>,
    manager: Option<Manager>,
    /// When we complain again.
    pub(super) complain_at: Instant,
    /// Engines have something to do that they do not know of yet.
    pub(super) prod: bool,
}

fn failed(what: &'static str) -> impl Fn(Errno) -> String {
    move |why| format!("{what}: {why}")
}

fn random() -> Result<u64, String> {
    os::random().map_err(failed("no random numbers"))
}

/// Where programs find us. Without a broker, programs in containers stay on the kernel.
fn open_doors(run_dir: &Path) -> Result<(Door, Option<Broker>), String> {
    let dir = RunDir::open(run_dir).map_err(|why| format!("{}: {why}", run_dir.display()))?;
    let door = Door::open(&dir).map_err(|why| why.to_string())?;
    let broker = Broker::open(&dir, door.namespace);
    let broker = broker.inspect_err(|why| say!("introduces no containers: {why}"));
    Ok((door, broker.ok()))
}

/// Where the daemons of other hosts find us: TCP for the channels, and the UDP port of the frames.
fn take_ports(me: SocketAddr) -> Result<(TcpListener, Reserved), String> {
    let failed = |why: io::Error| format!("cannot listen at {me}: {why}");
    let listener = TcpListener::bind(me).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let reserved = Reserved::new(me.port());
    let reserved =
        reserved.map_err(|why| format!("UDP port {} cannot be had: {why}", me.port()))?;
    Ok((listener, reserved))
}

/// Programs have many bells: as many descriptors as we may have.
fn take_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let _ = setrlimit(Resource::Nofile, all);
}

impl Nicd {
    /// Takes its place; what is missing or wrong is said in one line.
    pub fn start(options: Options<'_>) -> Result<Nicd, String> {
        let (roster, peers, me) = Roster::open(options.peers, &options.identity)?;
        let (door, broker) = open_doors(options.run_dir)?;
        let (listener, reserved) = take_ports(me.control)?;
        let engines = reserve(options.engines, options.port, me.control.port())?;
        take_descriptors();
        pid::note();
        waiter::begin().ok_or("no memory for our waiters")?;
        let mut nicd = Nicd {
            set: Set::new().map_err(failed("no epoll set"))?,
            door,
            listener,
            signals: signals::open().map_err(|why| format!("no signals: {why}"))?,
            identity: options.identity,
            roster,
            peers: Peers::default(),
            make: Make {
                kind: options.port,
                device: options.device,
                udp: me.control.port(),
                impairment: options.impairment,
            },
            me,
            hosts: Vec::new(),
            by_peer: Vec::new(),
            callers: HashMap::new(),
            kernel_routes: Routes::open().map_err(failed("the kernel tells no routes"))?,
            watch: Watch::open().map_err(failed("the kernel tells no changes"))?,
            lease_to: options.lease_to,
            _reserved: reserved,
            engines,
            interfaces: Vec::new(),
            programs: HashMap::new(),
            with_blocks: Vec::new(),
            shares: Shares::new(),
            unfinished: HashSet::new(),
            shut: Vec::new(),
            broker,
            services: None,
            store: options.store,
            connections: Connections::default(),
            waiter: waiter::take().ok_or("no memory for a bell")?,
            life: random()?,
            next_number: 0,
            next_name: random()?,
            idle_spin: IdleSpin::default(),
            sweep_at: now(),
            orphans_at: None,
            stop_by: None,
            manager: Manager::find(),
            complain_at: now(),
            prod: false,
        };
        nicd.take_peers(peers, now())?;
        nicd.listen().map_err(failed("no epoll set"))?;
        if let Some(impairment) = &nicd.make.impairment {
            say!("a test: what arrives is impaired, {impairment}");
        }
        Ok(nicd)
    }

    fn listen(&self) -> rustix::io::Result<()> {
        for (source, fd) in [
            (Source::Door, self.door.programs()),
            (Source::StatusDoor, self.door.status()),
            (Source::Listener, self.listener.as_fd()),
            (Source::Signals, self.signals.as_fd()),
            (Source::Watch, self.watch.wake()),
            (Source::Bell, self.waiter.event_fd()),
        ] {
            self.set.add(source, fd)?;
        }
        match &self.broker {
            Some(broker) => self.set.add(Source::HostDoor, broker.listener()),
            None => Ok(()),
        }
    }

    /// There are no descriptors for those who come there.
    pub(super) fn shut(&mut self, door: Source) {
        if let Some(fd) = self.door_fd(door) {
            self.set.remove(fd);
            self.shut.push(door);
        }
    }

    fn open_doors(&mut self) {
        for door in std::mem::take(&mut self.shut) {
            let opened = self.door_fd(door).map(|fd| self.set.add(door, fd));
            if opened.is_some_and(|opened| opened.is_err()) {
                self.shut.push(door);
            }
        }
    }

    fn door_fd(&self, door: Source) -> Option<BorrowedFd<'_>> {
        match door {
            Source::Door => Some(self.door.programs()),
            Source::StatusDoor => Some(self.door.status()),
            Source::Listener => Some(self.listener.as_fd()),
            Source::HostDoor => self.broker.as_ref().map(Broker::listener),
            _ => None,
        }
    }

    pub(super) fn number(&mut self) -> u32 {
        self.next_number = self.next_number.wrapping_add(1);
        self.next_number
    }

    /// Serves until a signal ends it.
    pub fn run(&mut self) {
        self.engines.start(&self.make, self.waiter);
        self.open_services();
        self.open_roster();
        self.begin(now());
        if let Some(manager) = &mut self.manager {
            manager.ready(now());
        }
        let mut polls = 0;
        loop {
            let (busy, due) = self.poll();
            if self.is_through() {
                self.engines.end();
                return;
            }
            polls += 1;
            let frames = interface::frames(&self.interfaces);
            if !self.idle_spin.goes_on(now(), busy, frames) {
                self.sleep(due);
            } else if polls % POLLS == 0 {
                // One and the same moment: the shortest sleep would last as long as the timers' slack.
                let time = now();
                self.look_around(time, Some(time));
            }
        }
    }

    /// One poll of everything that bytes go through. When the engines want to be polled again.
    fn poll(&mut self) -> (bool, Option<Instant>) {
        let time = now();
        let expects = self.idle_spin.expects_news();
        let (mut busy, due) = interface::poll_all(&mut self.interfaces, expects, time);
        self.hear_engines(time);
        self.hear_threads(time);
        self.take_rings(time);
        busy |= std::mem::take(&mut self.prod);
        (busy, due)
    }

    fn sleep(&mut self, due: Option<Instant>) {
        if interface::hurry(&mut self.interfaces, now(), due) {
            return;
        }
        // A program that posts from now on rings; what it has posted before is seen here.
        self.waiter.lie_down();
        if self.has_rings()
            || self.engines.have_news()
            || !self
                .interfaces
                .iter_mut()
                .all(|interface| interface.port.lie_down())
        {
            self.waiter.get_up();
            return;
        }
        let until = due.into_iter().chain(self.next_appointment()).min();
        self.look_around(now(), until);
        self.waiter.get_up();
    }

    /// Hears whoever has something to say, until that moment at the latest.
    fn look_around(&mut self, time: Instant, until: Option<Instant>) {
        let unfinished = std::mem::take(&mut self.unfinished);
        let until = if unfinished.is_empty() {
            until
        } else {
            Some(time)
        };
        for source in self.set.wait(time, until).into_iter().chain(unfinished) {
            self.hear(source, now());
        }
        self.prod |= !self.unfinished.is_empty();
        self.keep_appointments(now());
    }

    fn hear(&mut self, source: Source, time: Instant) {
        match source {
            Source::Door => self.let_programs_in(),
            Source::StatusDoor => self.tell_status(),
            Source::Listener => self.take_calls(time),
            Source::Signals => self.hear_signals(time),
            Source::Watch => self.hear_changes(time),
            Source::Bell => self.waiter.silence(),
            Source::StrangersBell(number) => self.silence(number),
            Source::Program(number) => drop(self.hear_program(number, time)),
            Source::Caller(number) => self.hear_caller(number, time),
            Source::Host(number) => self.hear_host(number as usize, time),
            Source::Interface(number) => self.hear_port(number as usize, time),
            Source::Orphan(number) => self.hear_orphan(number, time),
            Source::HostDoor => self.let_guests_in(),
            Source::Guest(number) => self.hear_guest(number, time),
            Source::Names => self.hear_names(time),
            Source::Board => self.hear_board(time),
            Source::Roster => self.hear_roster(time),
        }
    }

    fn tell_status(&mut self) {
        if !self.door.tell(&self.status()) {
            self.shut(Source::StatusDoor);
        }
    }

    fn hear_guest(&mut self, number: u32, time: Instant) {
        if let Some(mut broker) = self.broker.take() {
            let is_elsewhere = |ip| self.behind(ip).is_some();
            if !broker.hear_guest(&self.set, number, time, is_elsewhere) {
                self.unfinished.insert(Source::Guest(number));
            }
            self.broker = Some(broker);
        }
    }

    fn let_guests_in(&mut self) {
        let next = &mut self.next_number;
        let number = || {
            *next = next.wrapping_add(1);
            *next
        };
        let broker = self.broker.as_mut();
        if broker.is_some_and(|it| !it.let_guests_in(&self.set, &self.shares, number)) {
            self.shut(Source::HostDoor);
        }
    }

    /// When to look around even if nothing happens.
    fn next_appointment(&self) -> Option<Instant> {
        let hosts = self
            .hosts
            .iter()
            .flat_map(|host| host.call_at.into_iter().chain(host.try_at));
        let broker = self.broker.as_ref();
        let waits = !self.connections.is_empty()
            || !self.callers.is_empty()
            || !self.shut.is_empty()
            || self.interfaces.iter().any(Interface::is_open)
            || broker.is_some_and(Broker::has_unpaired);
        let sweep = waits.then_some(self.sweep_at);
        let trials = broker.and_then(Broker::next_appointment);
        let manager = self.manager.as_ref().and_then(|manager| manager.next);
        let names = self.services.as_ref().and_then(Services::next_appointment);
        hosts
            .chain(sweep)
            .chain(trials)
            .chain(manager)
            .chain(names)
            .chain(self.roster.next_appointment())
            .chain(self.stop_by)
            .chain(self.orphans_at)
            .min()
    }

    fn keep_appointments(&mut self, time: Instant) {
        self.tend_hosts(time);
        self.look_at_orphans(time);
        self.tend_names(time);
        self.tend_roster(time);
        if let Some(manager) = &mut self.manager {
            manager.tend(time);
        }
        if let Some(broker) = &mut self.broker {
            broker.tend(time);
        }
        if self.sweep_at <= time {
            self.sweep_at = time + SWEEP;
            self.sweep_connections(time);
            self.ask_quiet_links();
            self.sweep_interfaces(time);
            self.sweep_callers();
            self.open_doors();
            self.settle_debts();
            if let Some(broker) = &mut self.broker {
                broker.sweep(time);
            }
        }
    }

    fn hear_signals(&mut self, time: Instant) {
        let wishes = signals::take(&self.signals);
        if wishes.reload && self.stop_by.is_none() {
            self.reload(time);
        }
        if wishes.end_engine {
            self.engines.end_last();
        }
        if wishes.stop && self.stop_by.is_none() {
            self.stop_by = Some(time + FAREWELL);
            self.part();
        }
    }

    /// We shall stop, and nobody waits for us any more.
    fn is_through(&self) -> bool {
        let late = |by: Instant| by <= now();
        self.stop_by
            .is_some_and(|by| late(by) || !self.connections.has_orphans() && !self.prod)
    }
}
