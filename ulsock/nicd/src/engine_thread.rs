//! An engine on a thread of its own, with ports of its own: it hears the control side's commands, and reports what has
//! happened. It knows neither programs nor peers' daemons, and ends when the control side is gone.
//!
//! What it cannot do it reports; what befalls it otherwise ends it, and the control side freezes what it had.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError};
use firmware::{End, EndpointId, Event, PeerId};
use netstack::link::window::Adaptive;
use netstack::link::{self, Config, Identity, Link};
use netstack::phy::Trouble;
use netstack::time::Instant;
use netstack::wire::Addresses;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::clock::now;
use super::connection::ConnectionId;
use super::engine_messages::{Command, Entry, Reach, Report};
use super::idle_spin::IdleSpin;
use super::interface::{self, Interface, Make};
use super::say;
use rendezvous::engine_endpoint::Block;
use shm::waiter::{Waiter, ring_if_asleep};

/// Between two looks for what nobody tells.
const SWEEP: Duration = Duration::from_secs(1);
/// At the end, for what there is to say to the peers and to sleepers.
const LAST_POLLS: usize = 64;

/// What the control side may look at.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineView {
    pub connections: usize,
    pub links: usize,
    pub frames_sent: u64,
    pub frames_received: u64,
    pub polls: u64,
}

/// What both sides have of a thread, beside its channels.
pub struct Shared {
    pub view: Mutex<EngineView>,
    /// Commands to look at a connection were lost: it shall look at all.
    pub look_at_all: AtomicBool,
    pub waiter: &'static Waiter,
    /// The control side's.
    pub control: &'static Waiter,
}

/// A host, as this engine reaches it.
struct EngineRoute {
    way: Reach,
    interface: usize,
    peer: PeerId,
    /// Packets that had come from there at the last look.
    heard: u64,
}

pub struct EngineThread {
    pub number: usize,
    pub make: Make,
    pub commands: Receiver<Command>,
    pub reports: Sender<Report>,
    pub shared: Arc<Shared>,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Done,
    /// The control side is gone.
    Left,
    /// It shall end, and tell nobody.
    Ended,
}

/// The same, at work.
struct Running {
    its: EngineThread,
    /// Reports that have found no room.
    unsent: VecDeque<Report>,
    interfaces: Vec<Interface>,
    routes: HashMap<usize, EngineRoute>,
    places: HashMap<ConnectionId, (usize, EndpointId)>,
    idle_spin: IdleSpin,
    sweep_at: Instant,
}

impl EngineThread {
    pub fn run(self) {
        let mut running = Running {
            its: self,
            unsent: VecDeque::new(),
            interfaces: Vec::new(),
            routes: HashMap::new(),
            places: HashMap::new(),
            idle_spin: IdleSpin::default(),
            sweep_at: now(),
        };
        let last = loop {
            match running.turn() {
                Turn::Done => {}
                last => break last,
            }
        };
        if last == Turn::Left {
            running.part();
        }
        let control = running.its.shared.control;
        drop(running);
        // The control side finds the channels closed.
        control.rouse();
    }
}

impl Running {
    fn turn(&mut self) -> Turn {
        let time = now();
        let told = self.obey(time);
        if told != Turn::Done {
            return told;
        }
        let expects = self.idle_spin.expects_news();
        let (mut busy, due) = interface::poll_all(&mut self.interfaces, expects, time);
        busy |= self.hear_engines() | self.send_reports();
        if self.sweep_at <= time {
            self.sweep(time);
        }
        let frames = interface::frames(&self.interfaces);
        if !self.idle_spin.goes_on(now(), busy, frames) {
            self.sleep(due);
        }
        Turn::Done
    }

    /// The control side is gone: peers hear that we go, words are frozen, and sleepers are woken.
    fn part(&mut self) {
        let time = now();
        for route in self.routes.values() {
            self.interfaces[route.interface].engine.leave(route.peer);
        }
        for interface in &mut self.interfaces {
            (0..LAST_POLLS).all(|_| interface.poll(time).busy);
        }
    }

    fn obey(&mut self, time: Instant) -> Turn {
        loop {
            match self.its.commands.try_recv() {
                Ok(Command::End) => return Turn::Ended,
                Ok(command) => self.do_as_told(command, time),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Turn::Left,
            }
        }
        if self.its.shared.look_at_all.swap(false, Ordering::AcqRel) {
            for (interface, endpoint) in self.places.values() {
                self.interfaces[*interface].engine.notice(*endpoint);
            }
        }
        Turn::Done
    }

    fn do_as_told(&mut self, command: Command, time: Instant) {
        match command {
            Command::Reach(way) => self.reach(way, time),
            Command::Leave { host } => self.leave(host),
            Command::Ask { host } => self.ask(host),
            Command::Close { interface } => self.close(interface, time),
            Command::Enter(entry) => self.enter(*entry, time),
            Command::Notice(id) => self.with(id, |it, endpoint| it.engine.notice(endpoint)),
            Command::TakeOver(id) => self.with(id, |it, endpoint| {
                it.ropes.take_over(endpoint);
                it.engine.notice(endpoint);
            }),
            Command::Orphan(id) => self.with(id, |it, endpoint| {
                it.ropes.take_over(endpoint);
                it.engine.orphan(time, endpoint);
            }),
            Command::Destroy(id) => self.with(id, |it, endpoint| it.engine.destroy(time, endpoint)),
            Command::End => {}
        }
    }

    fn with(&mut self, id: ConnectionId, act: impl FnOnce(&mut Interface, EndpointId)) {
        if let Some((interface, endpoint)) = self.places.get(&id) {
            act(&mut self.interfaces[*interface], *endpoint);
        }
    }

    fn reach(&mut self, way: Reach, time: Instant) {
        let host = way.host;
        if let Some(route) = self.routes.get_mut(&host) {
            let Reach { hop, neighbour, .. } = way;
            let same = |hop: netstack::phy::route::Hop| (hop.interface, hop.source, hop.mtu);
            let ends = (route.way.ours, route.way.theirs) == (way.ours, way.theirs);
            if ends && same(route.way.hop) == same(hop) {
                let engine = &mut self.interfaces[route.interface].engine;
                engine.redirect(route.peer, hop.hardware, neighbour);
                route.way = way;
            } else {
                self.leave(host);
            }
        }
        if let Err(why) = self.open(&way, time) {
            say!("engine {}: {why}", self.its.number);
            return;
        }
        if let Some(route) = self.routes.get(&host) {
            let engine = &mut self.interfaces[route.interface].engine;
            if !engine.link(route.peer).is_some_and(Link::is_up) {
                engine.greet(time, route.peer);
            }
        }
    }

    /// The interface has an open port, and the host is a peer there.
    fn open(&mut self, way: &Reach, time: Instant) -> Result<(), String> {
        let (index, address) = (way.hop.interface, way.hop.source);
        let known = self.interfaces.iter().position(|it| it.index == index);
        let number = match known {
            Some(number) => {
                let interface = &mut self.interfaces[number];
                let gone = interface.trouble == Some(Trouble::Gone);
                if !interface.is_open() || !interface.serves(address) || gone {
                    let reopened = interface.reopen(address, time);
                    reopened.map_err(|why| why.to_string())?;
                }
                number
            }
            None => {
                let opened = Interface::open(self.its.make.clone(), index, address, time);
                self.interfaces.push(opened.map_err(|why| why.to_string())?);
                self.interfaces.len() - 1
            }
        };
        if !self.routes.contains_key(&way.host) {
            let route = self.add_peer(number, way)?;
            self.routes.insert(way.host, route);
        }
        Ok(())
    }

    fn add_peer(&mut self, interface: usize, way: &Reach) -> Result<EngineRoute, String> {
        let ends = |source, destination| Addresses {
            source,
            destination,
        };
        let both_ends = link::Way {
            outgoing: ends(way.ours, way.theirs),
            incoming: ends(way.theirs, way.ours),
        };
        let random = || os::random().map_err(|why| format!("no random numbers: {why}"));
        let identity = Identity {
            incarnation: random()?,
            tag: random()? as u32,
            secret: [random()?, random()?],
        };
        let it = &mut self.interfaces[interface];
        let mut config = Config::new(identity, vec![both_ends]);
        config.mtu = way.hop.mtu.min(it.mtu);
        let peer = it
            .engine
            .add_peer(config, way.hop.hardware, way.neighbour, Adaptive::new());
        Ok(EngineRoute {
            way: *way,
            interface,
            peer: peer.ok_or("the two hosts have no addresses of one family")?,
            heard: 0,
        })
    }

    fn leave(&mut self, host: usize) {
        if let Some(route) = self.routes.remove(&host) {
            self.interfaces[route.interface].engine.retire(route.peer);
        }
    }

    fn ask(&mut self, host: usize) {
        if let Some(route) = self.routes.get(&host) {
            self.interfaces[route.interface].engine.ask(route.peer);
        }
    }

    fn close(&mut self, index: u32, time: Instant) {
        let Some(number) = self.interfaces.iter().position(|it| it.index == index) else {
            return;
        };
        let interface = &mut self.interfaces[number];
        for route in self.routes.values().filter(|it| it.interface == number) {
            interface.engine.leave(route.peer);
        }
        interface.poll(time);
        interface.close();
    }

    fn enter(&mut self, entry: Entry, time: Instant) {
        self.idle_spin.stay_awake(time);
        let Entry {
            id,
            host,
            name,
            opens,
            segment,
            conn,
            pair,
        } = entry;
        let block = Block::of(segment, conn);
        let joined = self.routes.get(&host).and_then(|route| {
            let it = &mut self.interfaces[route.interface];
            let joined = match opens {
                true => it.engine.open(time, route.peer, name, block.clone()),
                false => it.engine.expect(route.peer, name, block.clone()),
            };
            let endpoint = joined.ok()?;
            it.ropes.tie(endpoint, id, block, pair);
            Some((route.interface, endpoint))
        });
        self.places.extend(joined.map(|place| (id, place)));
        self.report(match joined {
            Some(_) => Report::Entered(id),
            None => Report::Refused(id),
        });
    }

    /// Whether anything has happened.
    fn hear_engines(&mut self) -> bool {
        let before = self.unsent.len();
        for number in 0..self.interfaces.len() {
            while let Some(event) = self.interfaces[number].engine.event() {
                let report = self.report_of(number, event);
                self.unsent.extend(report);
            }
            let own = std::mem::take(&mut self.interfaces[number].ropes.own);
            self.unsent.extend(own.into_iter().map(Report::Tripped));
        }
        self.unsent.len() > before
    }

    fn report_of<S>(&mut self, number: usize, event: Event<S>) -> Option<Report> {
        let ropes = &mut self.interfaces[number].ropes;
        match event {
            Event::Up(peer) => self.host_of(number, peer).map(|host| Report::Up { host }),
            Event::Down(peer, _) => self.host_of(number, peer).map(|host| Report::Down { host }),
            Event::Open(_) => None,
            Event::EndAcked(endpoint) => ropes.connection(endpoint).map(Report::EndAcked),
            Event::Gone { endpoint, how, .. } => {
                let id = ropes.connection(endpoint)?;
                ropes.untie(endpoint);
                self.places.remove(&id);
                let closed = how == End::Closed;
                Some(Report::Gone { id, closed })
            }
        }
    }

    fn host_of(&self, interface: usize, peer: PeerId) -> Option<usize> {
        let mut routes = self.routes.iter();
        let found = routes.find(|(_, it)| (it.interface, it.peer) == (interface, peer));
        found.map(|(host, _)| *host)
    }

    fn report(&mut self, report: Report) {
        self.unsent.push_back(report);
    }

    /// What finds no room waits here: there are a few reports for each connection. Whether something was sent.
    fn send_reports(&mut self) -> bool {
        let mut sent = false;
        while let Some(report) = self.unsent.pop_front() {
            match self.its.reports.try_send(report) {
                Ok(()) => sent = true,
                Err(TrySendError::Full(report)) => {
                    self.unsent.push_front(report);
                    break;
                }
                Err(TrySendError::Disconnected(_)) => {}
            }
        }
        if sent {
            fence(Ordering::SeqCst);
            ring_if_asleep(self.its.shared.control.number);
        }
        sent
    }

    fn sleep(&mut self, due: Option<Instant>) {
        if interface::hurry(&mut self.interfaces, now(), due) {
            return;
        }
        self.show();
        let waiter = self.its.shared.waiter;
        // Who commands from now on rings; what was commanded before is seen here.
        waiter.lie_down();
        let quiet = self.its.commands.is_empty()
            && self.unsent.is_empty()
            && !self.its.shared.look_at_all.load(Ordering::Acquire)
            && self.interfaces.iter_mut().all(|it| it.port.lie_down());
        if quiet {
            let open = self.interfaces.iter().any(Interface::is_open);
            let sweep = open.then_some(self.sweep_at);
            let until = due.into_iter().chain(sweep).min();
            self.wait(until.map(|until| until - now()));
        }
        waiter.get_up();
        waiter.silence();
    }

    fn wait(&self, time: Option<Duration>) {
        let ports = self.interfaces.iter().filter_map(|it| it.port.wake());
        let all = ports.chain([self.its.shared.waiter.event_fd()]);
        let mut fds: Vec<PollFd<'_>> = all
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let time = time.map(|time| Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: time.subsec_nanos().into(),
        });
        // A signal, too, is a reason to look.
        let _ = poll(&mut fds, time.as_ref());
    }

    /// Once a second: what has befallen ports, and hosts that say nothing (see `quiet.rs`).
    fn sweep(&mut self, time: Instant) {
        self.sweep_at = time + SWEEP;
        for number in 0..self.interfaces.len() {
            let interface = &mut self.interfaces[number];
            interface.trouble = interface.port.trouble().or(interface.trouble);
            if interface.is_open() && interface.trouble == Some(Trouble::Gone) {
                self.close(self.interfaces[number].index, time);
            }
        }
        let carried: HashSet<PeerId> = self.places.values().map(|(_, it)| it.peer).collect();
        for route in self.routes.values_mut() {
            let engine = &mut self.interfaces[route.interface].engine;
            let link = engine.link(route.peer);
            let heard = link.map_or(0, |link| link.counters().packets_received);
            let before = std::mem::replace(&mut route.heard, heard);
            if heard == before && carried.contains(&route.peer) {
                engine.ask(route.peer);
            }
        }
        self.show();
    }

    fn show(&self) {
        let mut view = EngineView {
            connections: self.places.len(),
            ..EngineView::default()
        };
        for interface in &self.interfaces {
            let counters = interface.engine.counters();
            view.frames_sent += counters.frames_sent;
            view.frames_received += counters.frames_received;
            view.polls += counters.polls;
        }
        let is_up = |it: &&EngineRoute| {
            let link = self.interfaces[it.interface].engine.link(it.peer);
            link.is_some_and(Link::is_up)
        };
        view.links = self.routes.values().filter(is_up).count();
        if let Ok(mut shown) = self.its.shared.view.lock() {
            *shown = view;
        }
    }
}
