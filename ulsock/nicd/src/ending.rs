//! How a line gets out of the engine, and to its end: links that die, programs that close or die, blocks that
//! nobody needs any more.

use std::time::Duration;

use firmware::{End, EndpointId, Event, PeerId};
use netstack::link::Why;
use netstack::time::Instant;

use super::daemon::Nicd;
use super::heir::{Fate, Known};
use super::line::{LineId, Place, Stage};
use super::program::PATIENCE;
use super::say;
use super::set::Source;
use super::words::Word;
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
                    Event::EndAcked(endpoint) => self.end_acked(interface, endpoint, time),
                    Event::Gone { endpoint, how, .. } => self.gone(interface, endpoint, how, time),
                }
            }
            for id in std::mem::take(&mut self.interfaces[interface].ropes.own) {
                self.run_heir(id, time);
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
        for id in self.lines.fresh(host) {
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
            false => self.rest(host),
        }
    }

    /// [C11]
    fn end_acked(&mut self, interface: usize, endpoint: EndpointId, time: Instant) {
        let Some(id) = self.interfaces[interface].ropes.line(endpoint) else {
            return;
        };
        let Some(line) = self.lines.get_mut(id) else {
            return;
        };
        line.end_acked = true;
        if line.heir.is_some() {
            self.run_heir(id, time);
        } else if line.program.is_none() {
            // [F26] All that a dead program had to say is said.
            self.destroy(
                Place {
                    interface,
                    endpoint,
                },
                time,
            );
        }
    }

    /// The engine has let go of a block. Unless both directions were over, its word is frozen.
    fn gone(&mut self, interface: usize, endpoint: EndpointId, how: End, time: Instant) {
        let id = self.interfaces[interface].ropes.line(endpoint);
        self.interfaces[interface].ropes.untie(endpoint);
        let Some((id, line)) = id.and_then(|id| Some((id, self.lines.get_mut(id)?))) else {
            return;
        };
        line.stage = Stage::Over;
        line.closed = how == End::Closed;
        line.end_acked |= line.closed;
        if line.heir.is_some() {
            self.run_heir(id, time);
        } else if line.program.is_none() {
            self.drop_line(id, time);
        } else {
            self.attend(id, time);
        }
    }

    pub(super) fn hear_heir(&mut self, number: u32, time: Instant) {
        if let Some(id) = self.lines.heir(number) {
            self.run_heir(id, time);
        }
    }

    /// `[F24]`
    pub(super) fn run_heir(&mut self, id: LineId, time: Instant) {
        let Some(line) = self.lines.get_mut(id) else {
            return;
        };
        let (Some(heir), Some(block)) = (&mut line.heir, &line.block) else {
            return;
        };
        let known = Known {
            end_acked: line.end_acked,
            closed: line.closed,
        };
        let fate = heir.run(time, block, known);
        if fate == Fate::Waits {
            if heir.is_unfinished {
                self.unfinished.insert(Source::Heir(heir.number));
            }
            return;
        }
        let place = line.place();
        if let Some(heir) = line.heir.take() {
            self.set.remove(heir.socket());
            heir.close(fate);
        }
        self.disown(id);
        match place {
            Some(place) => self.destroy(place, time),
            None => self.drop_line(id, time),
        }
    }

    /// `[F26]` The program of a line is dead.
    pub(super) fn orphan(&mut self, id: LineId, time: Instant) {
        let Some(line) = self.lines.get_mut(id) else {
            return;
        };
        if line.heir.is_some() {
            line.program = None;
            return;
        }
        line.since = time;
        let (place, entrusted) = (line.place(), line.entrusted.take());
        // [F31] Else it may have gone on by the kernel: nobody but it knows where its stream ends.
        if let Some(socket) = entrusted.filter(|_| line.is_entrusted()) {
            if let Some(block) = &line.block {
                block.say_closed();
            }
            self.succeed(id, socket, time);
            return;
        }
        line.program = None;
        match place {
            Some(place) => {
                let interface = &mut self.interfaces[place.interface];
                interface.ropes.take_over(place.endpoint);
                interface.engine.orphan(time, place.endpoint);
                self.prod = true;
            }
            None => self.drop_line(id, time),
        }
    }

    /// Nobody wants a line any more, unless we have to speak for its program: it was let go of, or another
    /// showing of the same connection takes its place.
    pub(super) fn dismiss(&mut self, id: LineId, time: Instant) {
        match self.lines.get(id) {
            Some(line) if line.heir.is_some() => {}
            Some(line) => match line.place() {
                Some(place) => self.destroy(place, time),
                None => self.drop_line(id, time),
            },
            None => {}
        }
    }

    /// A line is no longer its program's.
    fn disown(&mut self, id: LineId) {
        let Some(line) = self.lines.get_mut(id) else {
            return;
        };
        let owner = line.program.take();
        if let Some(program) = owner.and_then(|number| self.programs.get_mut(&number)) {
            if let Some(block) = &line.block {
                program.by_block.remove(&(block.segment.number, block.conn));
            }
        }
    }

    /// Nobody needs a line any more; the engine does not have it.
    pub(super) fn drop_line(&mut self, id: LineId, time: Instant) {
        self.disown(id);
        let Some(line) = self.lines.remove(id) else {
            return;
        };
        if let Some(block) = &line.block {
            block.release();
        }
        if self.hosts[line.host].is_in_touch() {
            self.tell(line.host, Word::Withdrawn { id }, time);
        }
    }

    /// What nobody tells: programs that have let go of a block, ends that nobody has shown, and those whose
    /// time is over.
    pub(super) fn sweep_lines(&mut self, time: Instant) {
        for id in self.lines.ids() {
            let Some(line) = self.lines.get(id) else {
                continue;
            };
            let age = time.since(line.since);
            match (line.stage, line.place()) {
                _ if line.heir.is_some() => self.run_heir(id, time),
                (Stage::Shown, _) if age >= PATIENCE => self.give_up(id, time),
                (Stage::Shown, _) => self.claim(id, time),
                // The kernel carries it again: the program alone shall decide when it ends.
                _ if line.has_lost_trust() => self.give_back_trust(id),
                (_, Some(place)) if line.program.is_none() && age >= FAREWELL => {
                    self.destroy(place, time);
                }
                _ if line.block.as_ref().is_some_and(Block::is_released) => self.attend(id, time),
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
