//! How a connection gets out of the engine, and to its end: links that die, programs that close or die, blocks that
//! nobody needs any more.

use std::time::Duration;

use firmware::{End, Event, PeerId};
use netstack::failover::Segment as _;
use netstack::link::Why;
use netstack::time::Instant;

use super::connection::{ConnectionId, Stage};
use super::daemon::Nicd;
use super::orphan::{ACK_TIMEOUT, Fate, Known};
use super::peer_messages::PeerMessage;
use super::programs::SHOWN_TIMEOUT;
use super::say;
use super::set::Source;
use rendezvous::engine_endpoint::Block;

/// After a link that has died.
const PAUSE: Duration = Duration::from_millis(100);
/// `[F26]` `[F30]` So long an engine speaks for those who are gone.
const FAREWELL: Duration = Duration::from_secs(60);

impl Nicd {
    /// What the engines have to say.
    pub(super) fn hear_engines(&mut self, time: Instant) {
        for interface in 0..self.interfaces.len() {
            while let Some(event) = self.interfaces[interface].engine.event() {
                self.prod = true;
                match event {
                    Event::Up(peer) => self.link_up(interface, peer, time),
                    Event::Down(peer, why) => self.link_down(interface, peer, why, time),
                    Event::Open(_) => {}
                    Event::EndAcked(endpoint) => {
                        let id = self.interfaces[interface].ropes.connection(endpoint);
                        id.into_iter().for_each(|id| self.end_acked(id, time));
                    }
                    Event::Gone { endpoint, how, .. } => {
                        let id = self.interfaces[interface].ropes.untie(endpoint);
                        let closed = how == End::Closed;
                        id.into_iter().for_each(|id| self.gone(id, closed, time));
                    }
                }
            }
            for id in std::mem::take(&mut self.interfaces[interface].ropes.own) {
                self.run_orphan(id, time);
            }
        }
    }

    fn host_of(&self, interface: usize, peer: PeerId) -> Option<usize> {
        self.hosts.iter().position(|host| {
            host.route
                .is_some_and(|route| (route.interface, route.peer) == (interface, peer))
        })
    }

    fn link_up(&mut self, interface: usize, peer: PeerId, time: Instant) {
        let Some(host) = self.host_of(interface, peer) else {
            return;
        };
        self.hosts[host].up = true;
        self.hosts[host].at_rest = false;
        say!(
            "{}: link up on {}",
            self.title(host),
            self.interfaces[interface].name
        );
        for id in self.connections.fresh(host) {
            self.claim(id, time);
        }
    }

    fn link_down(&mut self, interface: usize, peer: PeerId, why: Why, time: Instant) {
        let Some(host) = self.host_of(interface, peer) else {
            return;
        };
        if std::mem::take(&mut self.hosts[host].up) {
            say!("{}: link down: {why:?}", self.title(host));
        }
        if why == Why::Silence {
            // Engines of programs use the same route.
            self.freeze_leased_to(host);
        }
        match self.is_needed(host) {
            true => self.hosts[host].try_at = Some(time + PAUSE),
            false => self.put_to_rest(host),
        }
    }

    /// `[C11]`
    pub(super) fn end_acked(&mut self, id: ConnectionId, time: Instant) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.end_acked = true;
        if connection.orphan.is_some() {
            self.run_orphan(id, time);
        } else if let Some(place) = connection.place().filter(|_| connection.program.is_none()) {
            // [F26] All that a dead program had to say is said.
            self.destroy(place, time);
        }
    }

    /// The engine has let go of a block. Unless both directions were over, its word is frozen.
    pub(super) fn gone(&mut self, id: ConnectionId, closed: bool, time: Instant) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.stage = Stage::Over;
        connection.closed = closed;
        connection.end_acked |= connection.closed;
        if connection.orphan.is_some() {
            self.run_orphan(id, time);
        } else if connection.program.is_none() {
            self.drop_connection(id, time);
        } else {
            self.attend(id, time);
        }
    }

    pub(super) fn hear_orphan(&mut self, number: u32, time: Instant) {
        if let Some(id) = self.connections.orphan(number) {
            self.run_orphan(id, time);
        }
    }

    /// `[F24]`
    pub(super) fn run_orphan(&mut self, id: ConnectionId, time: Instant) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let (Some(orphan), Some(block)) = (&mut connection.orphan, &connection.block) else {
            return;
        };
        let known = Known {
            end_acked: connection.end_acked,
            closed: connection.closed,
        };
        let fate = orphan.run(time, block, known);
        let (waits, failed_over) = (orphan.is_unacknowledged(known), block.tail().is_frozen());
        let unfinished = orphan.is_unfinished.then_some(orphan.number);
        let place = connection.place();
        if fate == Fate::Waits {
            self.unfinished.extend(unfinished.map(Source::Orphan));
            if waits {
                self.look_at_orphans_by(time + ACK_TIMEOUT);
            }
            if let Some(place) = place.filter(|_| failed_over) {
                self.destroy(place, time);
            }
            return;
        }
        if let Some(orphan) = connection.orphan.take() {
            self.set.remove(orphan.socket());
            orphan.close(fate);
        }
        self.disown(id);
        match place {
            Some(place) => self.destroy(place, time),
            None => self.drop_connection(id, time),
        }
    }

    fn look_at_orphans_by(&mut self, time: Instant) {
        let by = self.orphans_at.map_or(time, |at| at.min(time));
        self.orphans_at = Some(by);
    }

    /// `[F15]` Nobody tells that acknowledgements do not come.
    pub(super) fn look_at_orphans(&mut self, time: Instant) {
        if self.orphans_at.take_if(|at| *at <= time).is_some() {
            for id in self.connections.orphan_ids() {
                self.run_orphan(id, time);
            }
        }
    }

    /// `[F26]` The program of a connection is dead.
    pub(super) fn lose_program_of(&mut self, id: ConnectionId, time: Instant) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if connection.orphan.is_some() {
            connection.program = None;
            return;
        }
        connection.since = time;
        let (place, entrusted) = (connection.place(), connection.entrusted.take());
        // [F31] Else it may have gone on by the kernel: nobody but it knows where its stream ends.
        if let Some(socket) = entrusted.filter(|_| connection.is_entrusted()) {
            if let Some(block) = &connection.block {
                block.say_closed();
            }
            self.succeed(id, socket, time);
            return;
        }
        connection.program = None;
        match place {
            Some(place) => {
                self.orphan(place, time);
            }
            None => self.drop_connection(id, time),
        }
    }

    /// Nobody wants a connection any more, unless we have to speak for its program: it was let go of, or another
    /// showing of the same connection takes its place.
    pub(super) fn dismiss(&mut self, id: ConnectionId, time: Instant) {
        match self.connections.get(id) {
            Some(connection) if connection.orphan.is_some() => {}
            Some(connection) => match connection.place() {
                Some(place) => self.destroy(place, time),
                None => self.drop_connection(id, time),
            },
            None => {}
        }
    }

    /// A connection is no longer its program's.
    fn disown(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let owner = connection.program.take();
        if let Some(program) = owner.and_then(|number| self.programs.get_mut(&number))
            && let Some(block) = &connection.block
        {
            program.by_block.remove(&(block.segment.number, block.conn));
        }
    }

    /// Nobody needs a connection any more; the engine does not have it.
    pub(super) fn drop_connection(&mut self, id: ConnectionId, time: Instant) {
        self.disown(id);
        let Some(connection) = self.connections.remove(id) else {
            return;
        };
        if let Some(block) = &connection.block {
            block.release();
        }
        if self.hosts[connection.host].is_in_touch() {
            self.tell(connection.host, PeerMessage::Withdrawn { id }, time);
        }
    }

    /// What nobody tells: programs that have let go of a block, ends that nobody has shown, and those whose
    /// time is over.
    pub(super) fn sweep_connections(&mut self, time: Instant) {
        for id in self.connections.ids() {
            let Some(connection) = self.connections.get(id) else {
                continue;
            };
            let age = time.since(connection.since);
            match (connection.stage, connection.place()) {
                _ if connection.orphan.is_some() => self.run_orphan(id, time),
                (Stage::Shown, _) if age >= SHOWN_TIMEOUT => self.give_up(id, time),
                (Stage::Shown, _) => self.claim(id, time),
                // The kernel carries it again: the program alone shall decide when it ends.
                _ if connection.has_lost_trust() => self.give_back_trust(id),
                (_, Some(place)) if connection.program.is_none() && age >= FAREWELL => {
                    self.destroy(place, time);
                }
                _ if connection.block.as_ref().is_some_and(Block::is_released) => {
                    self.attend(id, time)
                }
                _ => {}
            }
        }
    }

    /// We stop: links end, words are frozen, and programs go on by the kernel.
    pub(super) fn part(&mut self) {
        say!("stopping: programs go on by kernel TCP");
        for host in self.others() {
            self.leave_route(host);
        }
        self.prod = true;
    }
}
