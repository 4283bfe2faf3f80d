//! What the daemon does with connections that an engine has, whichever that is, and what it hears from those on threads
//! of their own.

use netstack::failover::Segment as _;
use netstack::time::Instant;

use super::connection::{ConnectionId, Entering, Place, Stage};
use super::daemon::Nicd;
use super::engine_messages::{Command, Entry, Reach, Report};
use super::engines::{Heard, engine_address};
use super::host::Route;
use super::routes::RETRY;
use super::say;

impl Nicd {
    /// Its program may have something new.
    pub(super) fn notice(&mut self, place: Place) {
        match place {
            Place::Here {
                interface,
                endpoint,
            } => {
                self.interfaces[interface].engine.notice(endpoint);
                self.prod = true;
            }
            Place::Thread { engine, id } => self.engines.notice(engine, id),
        }
    }

    /// Its program has left it to us: we hear its bells from now on.
    pub(super) fn take_over(&mut self, place: Place) {
        match place {
            Place::Here {
                interface,
                endpoint,
            } => {
                let interface = &mut self.interfaces[interface];
                interface.ropes.take_over(endpoint);
                interface.engine.notice(endpoint);
                self.prod = true;
            }
            Place::Thread { engine, id } => self.engines.tell(engine, Command::TakeOver(id)),
        }
    }

    /// `[F26]` Its program is dead.
    pub(super) fn orphan(&mut self, place: Place, time: Instant) {
        match place {
            Place::Here {
                interface,
                endpoint,
            } => {
                let interface = &mut self.interfaces[interface];
                interface.ropes.take_over(endpoint);
                interface.engine.orphan(time, endpoint);
                self.prod = true;
            }
            Place::Thread { engine, id } => self.engines.tell(engine, Command::Orphan(id)),
        }
    }

    pub(super) fn destroy(&mut self, place: Place, time: Instant) {
        match place {
            Place::Here {
                interface,
                endpoint,
            } => {
                self.interfaces[interface].engine.destroy(time, endpoint);
                self.prod = true;
            }
            Place::Thread { engine, id } => self.engines.tell(engine, Command::Destroy(id)),
        }
    }

    /// Gives a block to an engine on a thread of its own, which will say whether it takes it. `None`: it does not.
    pub(super) fn enter_thread(
        &mut self,
        id: ConnectionId,
        engine: usize,
        name: u64,
        entering: Entering,
    ) -> Option<()> {
        let connection = self.connections.get_mut(id)?;
        let pair = self.programs.get(&connection.program?)?.pair.clone();
        let block = connection.block.as_ref()?;
        let entry = Entry {
            id,
            host: connection.host,
            name,
            opens: entering.from.is_none(),
            segment: block.segment.clone(),
            conn: block.conn,
            pair,
        };
        if !self.engines.enter(engine, entry) {
            return None;
        }
        connection.stage = Stage::Served(Place::Thread { engine, id });
        connection.entering = Some(entering);
        Some(())
    }

    /// The engines on threads get their links to a host up, as the first does.
    pub(super) fn reach_by_threads(&mut self, host: usize, route: &Route) {
        let (ours, theirs) = (self.me.control, self.control(host));
        let (hop, neighbour) = (route.hop, route.neighbour);
        self.engines.tell_all(self.hosts[host].engines, |engine| {
            Some(Command::Reach(Reach {
                host,
                hop,
                neighbour,
                ours: engine_address(ours, engine)?,
                theirs: engine_address(theirs, engine)?,
            }))
        });
    }

    /// The same for all of them.
    pub(super) fn tell_threads(&mut self, command: impl Fn() -> Command) {
        let all = self.engines.count();
        self.engines.tell_all(all, |_| Some(command()));
    }

    pub(super) fn hear_threads(&mut self, time: Instant) {
        while let Some((engine, heard)) = self.engines.hear() {
            self.prod = true;
            match heard {
                Heard::Report(report) => self.hear_report(engine, report, time),
                Heard::Ended => self.lose_engine(engine, time),
            }
        }
    }

    fn hear_report(&mut self, engine: usize, report: Report, time: Instant) {
        match report {
            Report::Up { host } => {
                say!("{}: link up by engine {engine}", self.title(host));
                self.hosts[host].threads_up |= 1 << engine;
            }
            Report::Down { host } => self.thread_down(engine, host, time),
            Report::Entered(id) => self.entered(id, time),
            Report::Refused(id) => self.not_entered(id, time),
            Report::EndAcked(id) => self.end_acked(id, time),
            Report::Gone { id, closed } => self.gone(id, closed, time),
            Report::Tripped(id) => self.run_orphan(id, time),
        }
    }

    fn thread_down(&mut self, engine: usize, host: usize, time: Instant) {
        let known = &mut self.hosts[host];
        let was_up = known.threads_up & 1 << engine != 0;
        known.threads_up &= !(1 << engine);
        // Who greets in vain waits for the next look at the route.
        if was_up {
            let again = time + RETRY;
            known.try_at = known.try_at.map(|at| at.min(again));
            say!("{}: link down by engine {engine}", self.title(host));
        }
    }

    fn entered(&mut self, id: ConnectionId, time: Instant) {
        let connection = self.connections.get_mut(id);
        let Some((host, entering)) = connection.and_then(|it| Some((it.host, it.entering.take()?)))
        else {
            return;
        };
        if let Some(to) = entering.from {
            let epoch = entering.epoch;
            let agree = super::peer_messages::PeerMessage::Agree { to, epoch };
            self.tell(host, agree, time);
        }
    }

    fn not_entered(&mut self, id: ConnectionId, time: Instant) {
        let connection = self.connections.get_mut(id);
        if let Some(entering) = connection.and_then(|it| it.entering.take()) {
            self.take_back(id, entering, time);
        }
        self.gone(id, false, time);
    }

    /// The thread of an engine has ended. It may have told nobody: words are frozen, and programs go on by the kernel,
    /// until another engine has their connections.
    fn lose_engine(&mut self, engine: usize, time: Instant) {
        say!(
            "engine {engine} has ended: its programs go on by kernel TCP, and come to another engine"
        );
        for host in &mut self.hosts {
            host.threads_up &= !(1 << engine);
        }
        let had = |place: Option<Place>| matches!(place, Some(Place::Thread { engine: it, .. }) if it == engine);
        let all = self.connections.iter();
        let lost: Vec<ConnectionId> = all
            .filter(|(_, it)| had(it.place()))
            .map(|(id, _)| id)
            .collect();
        for id in lost {
            if let Some(block) = self.connections.get(id).and_then(|it| it.block.as_ref()) {
                block.freeze();
            }
            self.wake(id);
            self.not_entered(id, time);
        }
    }
}
