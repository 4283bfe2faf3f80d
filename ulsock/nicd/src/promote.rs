//! How a connection gets from being shown to the engine (docs/failover.md).

use std::sync::atomic::Ordering;
use std::time::Duration;

use firmware::{EndpointId, PeerId, Refused};
use netstack::failover::{Prepare, Segment};
use netstack::time::Instant;

use super::connection::{Connection, ConnectionId, Entering, Place, Stage};
use super::daemon::Nicd;
use super::engine_messages::Command;
use super::host::Theirs;
use super::peer_messages::{PeerMessage, Proposal, Tuple};
use super::say;
use rendezvous::engine_endpoint::Block;
use rendezvous::pair::Claim;

impl Nicd {
    /// The daemon of a host has been shown the other end of a connection. `false`: it has been shown too
    /// much.
    pub(super) fn hear_of(
        &mut self,
        host: usize,
        tuple: Tuple,
        theirs: Theirs,
        time: Instant,
    ) -> bool {
        // Only the daemon that the peers file names for an address speaks for it.
        if self.behind(tuple.remote.ip()) != Some(host) {
            self.complain_of(host, tuple, time);
            return true;
        }
        let fits = self.hosts[host].note(tuple, theirs);
        if let Some(id) = self.connections.of(&tuple) {
            self.claim(id, time);
            self.attend(id, time);
        }
        fits
    }

    fn complain_of(&mut self, host: usize, tuple: Tuple, time: Instant) {
        if self.complain_at <= time {
            self.complain_at = time + Duration::from_secs(1);
            let (title, ip) = (self.title(host), tuple.remote.ip());
            say!("{title}: speaks for {ip}, which is not among its nets= in our peers file");
        }
    }

    /// Both ends have been shown, and the link is up: the program gets a block, if it has none. If the link is at
    /// rest, it gets up.
    pub(super) fn claim(&mut self, id: ConnectionId, time: Instant) {
        let Some(connection) = self
            .connections
            .get(id)
            .filter(|connection| connection.is_fresh())
        else {
            return;
        };
        let (host, has_block) = (connection.host, connection.stage != Stage::Shown);
        if !self.hosts[host].knows_other_end(connection) {
            return;
        }
        if self.hosts[host].at_rest {
            self.want(host, time);
        } else if self.hosts[host].up && !has_block {
            self.give_block(id);
        }
    }

    /// Nothing comes of it if there is no memory, or the program does not read: it will be tried again.
    fn give_block(&mut self, id: ConnectionId) -> Option<()> {
        let route = self.engine_route_for(id);
        let connection = self.connections.get_mut(id)?;
        let number = connection.program?;
        let program = self.programs.get_mut(&number)?;
        let block = Block::allocate(&program.pair)?;
        let claim = Claim {
            offer_cookie: connection.cookie,
            claim_cookie: 0,
            segment: block.segment.number,
            conn: block.conn,
        };
        if !program.pair.send_claim(claim) {
            block.was_not_claimed();
            return None;
        }
        if block.segment.number as usize == program.segments.len() {
            if program.segments.is_empty() {
                self.with_blocks.push(number);
            }
            program.segments.push(block.segment.clone());
        }
        let place = (block.segment.number, block.conn);
        program.by_block.insert(place, id);
        if connection.connected && connection.ready_for.is_some() {
            block.confirm();
        }
        connection.block = Some(block);
        connection.engine_route = route;
        connection.stage = Stage::Claimed;
        Some(())
    }

    /// The program has rung for a connection, or somebody thinks that it may have something new.
    pub(super) fn attend(&mut self, id: ConnectionId, time: Instant) {
        if self
            .connections
            .get(id)
            .is_some_and(Connection::has_lost_trust)
        {
            self.give_back_trust(id);
        }
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let Some(block) = connection.block.as_ref() else {
            return;
        };
        if block.is_released() && connection.orphan.is_none() {
            self.part_with(id, time);
            return;
        }
        let epoch = block.theirs().promotion.epoch.load(Ordering::Acquire);
        match connection.stage {
            Stage::Claimed if connection.connected && epoch != 0 => self.propose(id, epoch, time),
            Stage::Claimed | Stage::Asked { .. } if epoch == 0 => self.say_ready(id, time),
            Stage::Asked { .. } if epoch != 0 => self.answer(id, epoch, time),
            Stage::Served(place) => self.notice(place),
            _ => {}
        }
    }

    /// B's program looks at its block: A's daemon hears of it, once for each of its connections.
    fn say_ready(&mut self, id: ConnectionId, time: Instant) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let (host, confirmed) = (
            connection.host,
            connection.block.as_ref().is_some_and(Block::is_confirmed),
        );
        let other = self.hosts[host]
            .other_end(&connection.tuple)
            .map(|other| other.id);
        if connection.connected || !confirmed || connection.ready_for == other {
            return;
        }
        connection.ready_for = other;
        if let Some(to) = other {
            self.tell(host, PeerMessage::Ready { to }, time);
        }
    }

    pub(super) fn hear_ready(&mut self, host: usize, id: ConnectionId) {
        let connection = self
            .connections
            .get_mut(id)
            .filter(|connection| connection.host == host);
        if let Some(connection) = connection.filter(|connection| connection.connected) {
            connection.ready_for = Some(id);
            if let Some(block) = connection
                .block
                .as_ref()
                .filter(|_| connection.stage == Stage::Claimed)
            {
                block.confirm();
            }
        }
    }

    /// The program has let go of its block. If it has left the connection to us, it has said so before.
    fn part_with(&mut self, id: ConnectionId, time: Instant) {
        if let Some(number) = self
            .connections
            .get(id)
            .and_then(|connection| connection.program)
        {
            self.hear_all(number, time);
        }
        self.dismiss(id, time);
    }

    /// `[F2]` A's library proposes.
    fn propose(&mut self, id: ConnectionId, epoch: u64, time: Instant) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let host = connection.host;
        let other = self.hosts[host].other_end(&connection.tuple);
        let Some(other) = other.filter(|_| self.hosts[host].up) else {
            self.refuse(id, epoch);
            return;
        };
        let Some(block) = &connection.block else {
            return;
        };
        let promotion = &block.theirs().promotion;
        self.next_name = self.next_name.wrapping_add(1);
        let (name, inline) = (self.next_name, connection.engine_route.is_some());
        let engine = match inline {
            true => 0,
            false => self.engines.next_of(self.hosts[host].threads_to_use()),
        };
        let proposal = Proposal {
            to: other.id,
            from: id,
            name,
            epoch,
            key: promotion.key.load(Ordering::Relaxed),
            sent: promotion.sent.load(Ordering::Relaxed),
            received: promotion.received.load(Ordering::Relaxed),
            inline,
            engine: engine as u16,
        };
        connection.stage = Stage::Proposed {
            epoch,
            name,
            engine,
        };
        self.tell(host, PeerMessage::Prepare(proposal), time);
    }

    /// Nothing comes of a proposal of our program's.
    fn refuse(&mut self, id: ConnectionId, epoch: u64) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.stage = Stage::Over;
            if let Some(block) = &connection.block {
                let refused = &block.ours().promotion.refused;
                refused.store(epoch, Ordering::Release);
            }
        }
        self.wake(id);
    }

    /// Everybody of the program who waits for that connection shall look.
    pub(super) fn wake(&self, id: ConnectionId) {
        let connection = self.connections.get(id);
        let pair = connection
            .and_then(|connection| connection.program)
            .and_then(|number| self.programs.get(&number))
            .map(|program| &program.pair);
        let block = connection.and_then(|connection| connection.block.as_ref());
        if let (Some(pair), Some(block)) = (pair, block) {
            block.wake(pair);
        }
    }

    /// `[F2]` A proposal has come: B's library is asked.
    pub(super) fn ask(&mut self, host: usize, it: Proposal, time: Instant) {
        let known = |nicd: &Nicd| {
            nicd.connections.get(it.to).is_some_and(|connection| {
                let mirrored = nicd.hosts[host].is_known(&connection.tuple, it.from);
                connection.host == host && !connection.connected && mirrored
            })
        };
        if !known(self) || self.write_proposal(&it).is_none() {
            let no = PeerMessage::Decline {
                to: it.from,
                epoch: it.epoch,
            };
            self.tell(host, no, time);
            return;
        }
        self.wake(it.to);
    }

    /// `None`: its block is not one to be asked about.
    fn write_proposal(&mut self, it: &Proposal) -> Option<()> {
        // The peer's daemon may have seen the link come up before us.
        if self.connections.get(it.to)?.stage == Stage::Shown {
            self.give_block(it.to);
        }
        let connection = self.connections.get_mut(it.to)?;
        let block = connection.block.as_ref()?;
        let may_ask = matches!(connection.stage, Stage::Claimed | Stage::Asked { .. });
        let agreed = block.theirs().promotion.epoch.load(Ordering::Acquire);
        if !may_ask
            || agreed != 0
            || it.epoch == 0
            || it.inline != connection.engine_route.is_some()
            || usize::from(it.engine) >= self.hosts[connection.host].engines.max(1)
            || !self.engines.runs(it.engine.into())
        {
            return None;
        }
        block.tell_place(it.name, connection.engine_route);
        block.ours().promotion.put(&Prepare {
            epoch: it.epoch,
            key: it.key,
            sent: it.sent,
            received: it.received,
        });
        connection.stage = Stage::Asked {
            epoch: it.epoch,
            name: it.name,
            from: it.from,
            engine: it.engine.into(),
        };
        Some(())
    }

    /// `[F3]` B's library has agreed: the engine expects the connection.
    fn answer(&mut self, id: ConnectionId, agreed: u64, time: Instant) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let (host, stage) = (connection.host, connection.stage);
        let Stage::Asked {
            epoch,
            name,
            from,
            engine,
        } = stage
        else {
            return;
        };
        if connection.engine_route.is_some() && agreed == epoch {
            self.connections.set_stage(id, Stage::Inline);
            self.tell(host, PeerMessage::Agree { to: from, epoch }, time);
            return;
        }
        let block = connection.block.clone().filter(|_| agreed == epoch);
        let entering = Entering {
            epoch,
            from: Some(from),
        };
        let entered = block.is_some_and(|block| match engine {
            0 => self
                .enter(id, &block, |engine, peer| {
                    engine.expect(peer, name, block.clone())
                })
                .is_some(),
            _ => self.enter_thread(id, engine, name, entering).is_some(),
        });
        match entered {
            // Its thread says whether it expects the connection.
            true if engine > 0 => {}
            true => self.tell(host, PeerMessage::Agree { to: from, epoch }, time),
            false => self.take_back(id, entering, time),
        }
    }

    /// Nothing comes of what was agreed: neither engine has the connection.
    pub(super) fn take_back(&mut self, id: ConnectionId, entering: Entering, time: Instant) {
        let Entering { epoch, from } = entering;
        let Some(host) = self.connections.get(id).map(|connection| connection.host) else {
            return;
        };
        match from {
            Some(to) => {
                self.let_down(id);
                self.tell(host, PeerMessage::Decline { to, epoch }, time);
            }
            None => self.refuse(id, epoch),
        }
    }

    /// `[F9]` B's library has agreed to what will not be: it finds its word frozen, and resumes.
    fn let_down(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.stage = Stage::Over;
            if let Some(block) = &connection.block {
                block.freeze();
            }
        }
        self.wake(id);
    }

    /// `[F6]` AGREE has come: A's engine opens the connection.
    pub(super) fn open(&mut self, host: usize, id: ConnectionId, agreed: u64, time: Instant) {
        let Some(connection) = self
            .connections
            .get(id)
            .filter(|connection| connection.host == host)
        else {
            return;
        };
        let Stage::Proposed {
            epoch,
            name,
            engine,
        } = connection.stage
        else {
            return;
        };
        let block = connection.block.clone().filter(|_| agreed == epoch);
        let Some(block) = block else {
            return;
        };
        if connection.engine_route.is_some() {
            block.tell_place(name, connection.engine_route);
            let word = &block.ours().promotion.agreed;
            word.store(epoch, Ordering::Release);
            self.connections.set_stage(id, Stage::Inline);
            self.wake(id);
            return;
        }
        let entering = Entering { epoch, from: None };
        let entered = match engine {
            0 => self
                .enter(id, &block, |engine, peer| {
                    engine.open(time, peer, name, block.clone())
                })
                .is_some(),
            _ => self.enter_thread(id, engine, name, entering).is_some(),
        };
        if !entered {
            self.take_back(id, entering, time);
        }
    }

    /// Gives a block to the first engine.
    fn enter(
        &mut self,
        id: ConnectionId,
        block: &Block,
        join: impl FnOnce(
            &mut super::interface::InterfaceEngine,
            PeerId,
        ) -> Result<EndpointId, Refused<Block>>,
    ) -> Option<Place> {
        let connection = self.connections.get_mut(id)?;
        let pair = self.programs.get(&connection.program?)?.pair.clone();
        let route = self.hosts[connection.host].route?;
        let interface = &mut self.interfaces[route.interface];
        let endpoint = join(&mut interface.engine, route.peer).ok()?;
        interface.ropes.tie(endpoint, id, block.clone(), pair);
        let place = Place::Here {
            interface: route.interface,
            endpoint,
        };
        connection.stage = Stage::Served(place);
        self.prod = true;
        Some(place)
    }

    pub(super) fn hear_no(&mut self, host: usize, id: ConnectionId, epoch: u64) {
        let connection = self
            .connections
            .get(id)
            .filter(|connection| connection.host == host);
        if let Some(Stage::Proposed {
            epoch: ours,
            engine,
            ..
        }) = connection.map(|connection| connection.stage)
            && ours == epoch
        {
            self.refuse(id, epoch);
            // The peer's engine may have ended, which a link with nothing under way does not notice.
            self.engines.tell(engine, Command::Ask { host });
        }
    }
}
