//! Programs: who has connected, what they show and what they leave to us.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use netstack::failover::Segment as _;
use netstack::time::Instant;

use super::answers::{refuse, turn_away};
use super::connection::{Connection, ConnectionId, Stage};
use super::daemon::Nicd;
use super::door::Knock;
use super::orphan::Orphan;
use super::peer_messages::{PeerMessage, Tuple};
use super::program::Program;
use super::set::Source;
use super::shares::Held;
use super::socket_check::{is_tcp_with, tuple_of};
use os::diag;
use os::fds::InternalFd;
use os::tcp;
use rendezvous::channel::Channel;
use rendezvous::message::Message;
use rendezvous::pair::{Mail, Other, Pair};
use rendezvous::reason::Reason;
use shm::doorbell::Doorbell;

/// Those that are let in at a look, and letters of one program that are read: everybody else comes in between.
const MOST_AT_ONCE: usize = 16;
/// Turns that empty a program's mail and its channel, where more than one must be heard at once.
const ALL_TURNS: usize = 64;
/// How long a connection waits for its other end to be shown.
pub const SHOWN_TIMEOUT: Duration = Duration::from_secs(60);

impl Nicd {
    pub(super) fn let_programs_in(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            match self.door.accept() {
                Knock::Nobody => return,
                Knock::NoRoom => return self.shut(Source::Door),
                Knock::Came(channel) if self.stop_by.is_none() => self.let_in(channel),
                Knock::Came(_) => {}
            }
        }
    }

    fn let_in(&mut self, channel: Channel) {
        let Ok(who) = channel.peer() else {
            return;
        };
        let place = self.shares.programs.take(who.uid, 1);
        let descriptors = self.shares.descriptors.take(who.uid, 3);
        let number = self.number();
        match (place, descriptors) {
            (Some(place), Some(descriptors)) => {
                let memory = self.shares.memory.of(who.uid);
                let pair = Pair::with_share(Other::Program, channel, memory);
                let program = pair.and_then(|pair| self.welcome(number, pair, place, descriptors));
                self.programs.extend(program.map(|it| (number, it)));
            }
            _ => turn_away(&channel),
        }
    }

    fn welcome(
        &self,
        number: u32,
        pair: Arc<Pair>,
        place: Held,
        descriptors: Held,
    ) -> Option<Program> {
        let stranger = pair.peer().uid != rustix::process::geteuid().as_raw();
        let bell = if stranger {
            let bell = Doorbell::new_pair().ok()?;
            let message = Message::Doorbell {
                waiter: self.waiter.number,
                kind: bell.kind(),
            };
            let source = Source::StrangersBell(number);
            self.set.add(source, bell.wait_fd()).ok()?;
            pair.tell(&message, Some(bell.far_fd())).then_some(bell)
        } else {
            pair.hand_over(self.waiter);
            None
        };
        self.set.add(Source::Program(number), pair.channel()).ok()?;
        Some(Program::new(pair, bell, place, descriptors))
    }

    pub(super) fn silence(&mut self, number: u32) {
        let bell = self.programs.get(&number).and_then(Program::bell);
        if let Some(bell) = bell {
            bell.drain();
        }
    }

    pub(super) fn has_rings(&self) -> bool {
        self.with_blocks().any(Program::has_posts)
    }

    /// Programs may have let go of memory since: what one owes, all of its user do.
    pub(super) fn settle_debts(&self) {
        self.with_blocks().for_each(|it| it.pair.settle_debts());
    }

    /// Who has no block yet has nothing to post: those may be many, and cost nothing here.
    fn with_blocks(&self) -> impl Iterator<Item = &Program> {
        let numbers = self.with_blocks.iter();
        numbers.filter_map(|number| self.programs.get(number))
    }

    /// Looks after all connections that programs have rung for.
    pub(super) fn take_rings(&mut self, time: Instant) {
        let mut rung = Vec::new();
        for program in self.with_blocks() {
            program.take_posts(|id| rung.push(id));
        }
        for id in rung {
            self.attend(id, time);
        }
    }

    /// One turn of a program. What is left of its mail waits for the next. Whether anything was heard.
    pub(super) fn hear_program(&mut self, number: u32, time: Instant) -> bool {
        let Some(pair) = self.programs.get(&number).map(|it| it.pair.clone()) else {
            return false;
        };
        // The last question is in vain.
        let heard = pair.receive_counted() > 1;
        let letters = std::iter::from_fn(|| pair.next_mail()).take(MOST_AT_ONCE);
        let read = letters.map(|mail| self.read(number, &pair, mail, time));
        let read = read.count();
        if read == MOST_AT_ONCE {
            self.unfinished.insert(Source::Program(number));
            return true;
        }
        if pair.is_dead() || !self.counts_descriptors(number) {
            self.lose_program(number, time);
        }
        heard || read > 0
    }

    fn read(&mut self, number: u32, pair: &Pair, mail: Mail, time: Instant) {
        match mail {
            Mail::Shown {
                cookie,
                connected,
                socket,
            } => {
                if let Err(reason) = self.show(number, cookie, connected, &socket, time) {
                    refuse(pair, cookie, reason);
                }
            }
            Mail::Left {
                segment,
                conn,
                socket,
            } => self.inherit(number, (segment, conn), socket, time),
            Mail::Asked => self.hear_ask(number),
            Mail::Entrusted {
                segment,
                conn,
                socket,
            } => self.trust(number, (segment, conn), socket),
            Mail::Refused { .. } | Mail::Window { .. } => {}
            Mail::Queue { .. } | Mail::Route(_) | Mail::Socket { .. } => {}
            Mail::Sought { .. } | Mail::Introduced { .. } | Mail::Found { .. } => {}
        }
    }

    /// All that a program has said before it did something that we have seen.
    pub(super) fn hear_all(&mut self, number: u32, time: Instant) {
        let mut turns = 0..ALL_TURNS;
        while self.hear_program(number, time) && turns.next().is_some() {}
    }

    /// `false`: with the bells that it has sent its user has more than its share.
    fn counts_descriptors(&mut self, number: u32) -> bool {
        let program = self.programs.get_mut(&number);
        program.is_none_or(Program::counts_descriptors)
    }

    /// A program shows a connection: what it says of it is checked by the socket itself.
    fn show(
        &mut self,
        number: u32,
        cookie: u64,
        connected: bool,
        socket: &InternalFd,
        time: Instant,
    ) -> Result<(), Reason> {
        let tuple = self.examine(cookie, socket).ok_or(Reason::Identity)?;
        let host = self.behind(tuple.remote.ip()).ok_or(Reason::NoNicd)?;
        if self.hosts[host].hopeless {
            return Err(Reason::NoRoute);
        }
        if let Some(old) = self.connections.of(&tuple) {
            self.dismiss(old, time);
        }
        let program = self.programs.get(&number).ok_or(Reason::PeerGone)?;
        let uid = program.pair.peer().uid;
        let place = self
            .shares
            .connections
            .take(uid, 1)
            .ok_or(Reason::TableFull)?;
        let descriptor = self.shares.descriptors.take(uid, 1);
        let descriptor = descriptor.ok_or(Reason::TableFull)?;
        let lease = self.lease_for(number, host);
        let id = self.connections.insert(Connection {
            _held: [place, descriptor],
            program: Some(number),
            cookie,
            connected,
            tuple,
            lease,
            host,
            since: time,
            stage: Stage::Shown,
            block: None,
            engine_route: None,
            entrusted: None,
            ready_for: None,
            entering: None,
            end_acked: false,
            closed: false,
            orphan: None,
        });
        if self.hosts[host].is_in_touch() {
            self.tell_shown(id, time);
        }
        self.claim(id, time);
        Ok(())
    }

    /// The daemon of its host hears of a connection.
    pub(super) fn tell_shown(&mut self, id: ConnectionId, time: Instant) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let message = PeerMessage::Shown {
            id,
            tuple: connection.tuple,
            connected: connection.connected,
            lease: connection.lease,
        };
        self.tell(connection.host, message, time);
    }

    /// The connection of a socket, if it is one that we can serve, and the one that is meant.
    fn examine(&self, cookie: u64, socket: &InternalFd) -> Option<Tuple> {
        let is_here = tcp::netns_cookie(socket.as_fd()).ok()? == self.door.namespace;
        tuple_of(socket.as_fd(), cookie).filter(|_| is_here)
    }

    /// `[F24]` A program has closed a connection, and leaves it to us.
    fn inherit(&mut self, number: u32, block: (u32, u32), socket: InternalFd, time: Instant) {
        if let Some(id) = self.connection_by_socket(number, block, &socket) {
            self.succeed(id, socket, time);
        }
    }

    /// The connection of a block, if it is this socket's that was shown for it. We will write to it as root.
    fn connection_by_socket(
        &self,
        number: u32,
        block: (u32, u32),
        socket: &InternalFd,
    ) -> Option<ConnectionId> {
        let id = self.connection_of_block(number, block)?;
        let cookie = self.connections.get(id)?.cookie;
        is_tcp_with(socket.as_fd(), cookie).then_some(id)
    }

    fn connection_of_block(&self, number: u32, block: (u32, u32)) -> Option<ConnectionId> {
        self.programs.get(&number)?.by_block.get(&block).copied()
    }

    /// We speak for the program of a connection from here on.
    pub(super) fn succeed(&mut self, id: ConnectionId, socket: InternalFd, time: Instant) {
        let orphan_number = self.number();
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        // Else the kernel has it, and whoever else holds the socket.
        let served = matches!(
            connection.stage,
            Stage::Served(_) | Stage::Inline | Stage::Over
        );
        let Some(block) = connection
            .block
            .as_ref()
            .filter(|_| served && connection.orphan.is_none())
        else {
            return;
        };
        if connection.stage == Stage::Inline {
            // Its engine has let go of it, or is gone: the kernel carries the rest.
            block.freeze();
            connection.stage = Stage::Over;
        }
        let orphan = Orphan::new(socket, orphan_number, connection.connected, block, time);
        let source = Source::Orphan(orphan_number);
        if self.set.add_changes(source, orphan.socket()).is_err() {
            return;
        }
        let place = connection.place();
        connection.orphan = Some(orphan);
        connection.entrusted = None;
        self.connections.add_orphan(orphan_number, id);
        if let Some(place) = place {
            self.take_over(place);
        }
        self.run_orphan(id, time);
    }

    /// `[F31]` A connection is on the link: we keep what is needed if its program is killed.
    fn trust(&mut self, number: u32, block: (u32, u32), socket: InternalFd) {
        let id = self.connection_by_socket(number, block, &socket);
        let connection = id.and_then(|id| self.connections.get_mut(id));
        if let Some(connection) =
            connection.filter(|connection| connection.is_entrusted() && connection.orphan.is_none())
        {
            if let Some(block) = &connection.block {
                block.has_socket(true);
            }
            connection.entrusted = Some(socket);
        }
    }

    /// We have no say in how that connection ends any more.
    pub(super) fn give_back_trust(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.entrusted = None;
            if let Some(block) = &connection.block {
                block.has_socket(false);
            }
            if connection.stage == Stage::Inline {
                connection.stage = Stage::Over;
            }
        }
    }

    /// Its process is dead, or breaks the protocol.
    fn lose_program(&mut self, number: u32, time: Instant) {
        let Some(program) = self.programs.remove(&number) else {
            return;
        };
        self.set.remove(program.pair.channel());
        self.with_blocks.retain(|other| *other != number);
        if let Some(bell) = program.bell() {
            self.set.remove(bell.wait_fd());
        }
        for id in self.connections.ids() {
            if self
                .connections
                .get(id)
                .is_some_and(|connection| connection.program == Some(number))
            {
                self.lose_program_of(id, time);
            }
        }
    }

    /// The other end of a connection has not been shown for long. Its program waits no longer; but it does
    /// while the other host is away.
    pub(super) fn give_up(&mut self, id: ConnectionId, time: Instant) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let Tuple { local, remote } = connection.tuple;
        let is_there = diag::other_end(&remote, &local).is_ok_and(|socket| socket.is_some());
        if is_there && self.hosts[connection.host].is_away() {
            connection.since = time;
            return;
        }
        let program = connection
            .program
            .and_then(|number| self.programs.get(&number));
        if let Some(program) = program {
            refuse(&program.pair, connection.cookie, Reason::NoPeer);
        }
        self.drop_connection(id, time);
    }
}
