//! Brings programs together that are in different containers of this host, and share nothing but us.
//!
//! Both show us their ends of a connection. The addresses must mirror each other, each program must run as the
//! user who owns its socket, and TCP itself must be at the same byte at both ends ([`Witness`]): then they get a
//! channel to each other, and need us no more. What a guest says is checked by the socket that it shows.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use netstack::phy::witness::{Position, Space, Witness};
use netstack::time::Instant;
use rustix::fs::fstat;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::answers::{refuse, turn_away};
use super::door::{HostDoor, Knock};
use super::names::NoDoor;
use super::pairing::{Match, Pairing, UnpairedEnd, UnpairedId};
use super::set::{Set, Source};
use super::shares::{Held, Shares};
use super::socket_check::tuple_of;
use super::translation::{self, Translation};
use os::fds::InternalFd;
use os::tcp;
use os::users::names_one_user;
use rendezvous::channel::Channel;
use rendezvous::message::{Introduction, Message};
use rendezvous::pair::{Mail, Other, Pair};
use rendezvous::reason::Reason;
use rendezvous::rundir::RunDir;

/// Those that are let in at a look, and letters of one guest that are read: everybody else comes in between.
const MOST_AT_ONCE: usize = 16;
/// Comparisons in one go: bytes may be under way just then.
const TRIES: usize = 8;

/// What two ends are.
enum Verdict {
    One,
    Two,
    /// Bytes are under way.
    Unknown,
    /// This one is closed.
    Over(UnpairedId),
}

/// A program that has connected.
struct Guest {
    pair: Arc<Pair>,
    /// Of its user's shares: a place, descriptors, and connections.
    _place: Held,
    descriptors: Held,
    unpaired: Held,
}

pub struct Broker {
    door: HostDoor,
    witness: Witness,
    /// Our own network namespace.
    own: u64,
    guests: HashMap<u32, Guest>,
    pairing: Pairing,
    translation: Translation,
    /// Who has been introduced to whom: the claiming one and the other, and how the two know it.
    introduced: HashMap<(u32, u32), u32>,
    next_introduction: u32,
    /// Connections that got a peer.
    pub found: u64,
}

impl Broker {
    /// What is missing is said in one line.
    pub fn open(dir: &RunDir, own: u64) -> Result<Broker, String> {
        let door = HostDoor::open(dir).map_err(|why| match why {
            NoDoor::Taken(pid) => format!("another nicd (pid {pid}) does it"),
            other => other.to_string(),
        })?;
        Ok(Broker {
            door,
            witness: Witness::open().map_err(|why| format!("no sequence numbers: {why}"))?,
            own,
            guests: HashMap::new(),
            pairing: Pairing::default(),
            translation: Translation::open(),
            introduced: HashMap::new(),
            next_introduction: 0,
            found: 0,
        })
    }

    pub fn listener(&self) -> BorrowedFd<'_> {
        self.door.guests()
    }

    pub fn guests(&self) -> usize {
        self.guests.len()
    }

    pub fn has_unpaired(&self) -> bool {
        !self.pairing.is_empty()
    }

    pub fn next_appointment(&self) -> Option<Instant> {
        let both = [self.pairing.next(), self.translation.next()];
        both.into_iter().flatten().min()
    }

    /// `false`: there are no descriptors for those who come.
    pub fn let_guests_in(
        &mut self,
        set: &Set,
        shares: &Shares,
        mut number: impl FnMut() -> u32,
    ) -> bool {
        for _ in 0..MOST_AT_ONCE {
            let channel = match self.door.accept() {
                Knock::Came(channel) => channel,
                Knock::Nobody => return true,
                Knock::NoRoom => return false,
            };
            self.let_in(set, shares, number(), channel);
        }
        true
    }

    fn let_in(&mut self, set: &Set, shares: &Shares, number: u32, channel: Channel) -> Option<()> {
        let uid = channel.peer().ok()?.uid;
        let place = shares.guests.take(uid, 1);
        let (Some(place), Some(descriptors)) = (place, shares.descriptors.take(uid, 1)) else {
            turn_away(&channel);
            return None;
        };
        let pair = Pair::with(Other::Guest, channel)?;
        set.add(Source::Guest(number), pair.channel()).ok()?;
        let guest = Guest {
            pair,
            _place: place,
            descriptors,
            unpaired: shares.unpaired.take(uid, 0)?,
        };
        self.guests.insert(number, guest);
        Some(())
    }

    /// One turn of a guest. `false`: what is left of its mail waits for the next. `is_elsewhere`: has another host this
    /// address?
    pub fn hear_guest(
        &mut self,
        set: &Set,
        number: u32,
        time: Instant,
        is_elsewhere: impl Fn(IpAddr) -> bool,
    ) -> bool {
        let Some(pair) = self.guests.get(&number).map(|it| it.pair.clone()) else {
            return true;
        };
        pair.receive();
        let letters = std::iter::from_fn(|| pair.next_mail()).take(MOST_AT_ONCE);
        let read = letters.map(|mail| self.read(number, mail, time, &is_elsewhere));
        if read.count() == MOST_AT_ONCE {
            return false;
        }
        if pair.is_dead() || !self.counts_descriptors(number) {
            set.remove(pair.channel());
            self.lose_guest(number);
        }
        true
    }

    fn read(
        &mut self,
        number: u32,
        mail: Mail,
        time: Instant,
        is_elsewhere: impl Fn(IpAddr) -> bool,
    ) -> Option<()> {
        let Mail::Sought {
            cookie,
            connected,
            translated,
            socket,
        } = mail
        else {
            return None;
        };
        let end = self.examine(number, cookie, connected, &socket, time);
        let end = end.map(|end| match translated {
            true => end.through_rules(translation::seen(socket.as_fd(), end.tuple, connected)),
            false => end,
        });
        let refusal = match end {
            // In another network namespace the address may be somebody else's.
            Ok(unpaired)
                if unpaired.space == Space::OWN && is_elsewhere(unpaired.tuple.remote.ip()) =>
            {
                Reason::OtherHost
            }
            Ok(unpaired) => {
                let id = self.pairing.insert(unpaired);
                self.translation.note(&unpaired, id);
                return None;
            }
            Err(reason) => reason,
        };
        refuse(&self.guests.get(&number)?.pair, cookie, refusal);
        None
    }

    /// `false`: with the bells that it has sent its user has more than its share.
    fn counts_descriptors(&mut self, number: u32) -> bool {
        let guest = self.guests.get_mut(&number);
        guest.is_none_or(|it| it.descriptors.resize(1 + it.pair.bells()))
    }

    fn lose_guest(&mut self, number: u32) {
        self.guests.remove(&number);
        self.pairing.remove_all_of(number);
        self.introduced
            .retain(|(claimer, other), _| *claimer != number && *other != number);
    }

    /// What a guest shows, if it is a connection of its own.
    fn examine(
        &mut self,
        guest: u32,
        cookie: u64,
        connected: bool,
        socket: &InternalFd,
        time: Instant,
    ) -> Result<UnpairedEnd, Reason> {
        let tuple = tuple_of(socket.as_fd(), cookie).ok_or(Reason::Identity)?;
        let known = self.guests.get_mut(&guest).ok_or(Reason::PeerGone)?;
        let owner = fstat(socket).map_err(|_| Reason::Identity)?.st_uid;
        if owner != known.pair.peer().uid || !names_one_user(owner) {
            return Err(Reason::Identity);
        }
        if !known.unpaired.resize(self.pairing.count_of(guest) + 1) {
            return Err(Reason::TableFull);
        }
        let space = self.space_of(socket).map_err(|_| Reason::Identity)?;
        Ok(UnpairedEnd {
            guest,
            uid: owner,
            cookie,
            connected,
            tuple,
            seen: tuple,
            translated: false,
            space,
            since: time,
        })
    }

    fn space_of(&mut self, socket: &InternalFd) -> rustix::io::Result<Space> {
        if tcp::netns_cookie(socket.as_fd())? == self.own {
            return Ok(Space::OWN);
        }
        self.witness.space_of(socket.as_fd())
    }

    /// Compares those that are due.
    pub fn tend(&mut self, time: Instant) {
        self.translation.tend(&mut self.pairing, time);
        for it in self.pairing.due(time) {
            match self.compare(&it) {
                Verdict::One => {
                    if self.bring_together(&it).is_some() {
                        self.found += 1;
                        self.pairing.remove(it.connected);
                        self.pairing.remove(it.accepted);
                    }
                }
                Verdict::Two => self.pairing.part(&it),
                Verdict::Over(id) => self.pairing.remove(id),
                Verdict::Unknown => {}
            }
        }
    }

    /// Those who have waited for long wait no more.
    pub fn sweep(&mut self, time: Instant) {
        for id in self.pairing.tired(time) {
            let unpaired = self.pairing.get(id);
            let guest =
                unpaired.and_then(|unpaired| Some((self.guests.get(&unpaired.guest)?, unpaired)));
            if let Some((pair, unpaired)) = guest {
                refuse(&pair.pair, unpaired.cookie, Reason::NoPeer);
            }
            self.pairing.remove(id);
        }
    }

    /// Is all that each end has sent what the other has received? One end is asked twice: if nothing has moved
    /// there meanwhile, the two answers are of one moment.
    fn compare(&self, it: &Match) -> Verdict {
        for _ in 0..TRIES {
            let asked = [it.connected, it.accepted, it.connected].map(|id| (id, self.position(id)));
            let mut positions = [Position::default(); 3];
            for (to, (id, position)) in positions.iter_mut().zip(asked) {
                match position {
                    Ok(Some(position)) => *to = position,
                    Ok(None) => return Verdict::Over(id),
                    Err(_) => return Verdict::Unknown,
                }
            }
            let [before, other, after] = positions;
            if before == after && before.meets(other) {
                return Verdict::One;
            }
            if before.is_far_from(other) {
                return Verdict::Two;
            }
        }
        Verdict::Unknown
    }

    fn position(&self, id: UnpairedId) -> rustix::io::Result<Option<Position>> {
        let Some(UnpairedEnd { space, tuple, .. }) = self.pairing.get(id) else {
            return Ok(None);
        };
        self.witness.ask(space, tuple.local, tuple.remote)
    }

    /// `None`: one of them does not read what it is told. It is tried again.
    fn bring_together(&mut self, it: &Match) -> Option<()> {
        let (offering, claiming) = (
            self.pairing.get(it.connected)?,
            self.pairing.get(it.accepted)?,
        );
        let number = self.introduce(claiming.guest, offering.guest)?;
        // Who claims is told last: the other then knows of it when the claim comes.
        for [to, about] in [[offering, claiming], [claiming, offering]] {
            let found = Message::Found {
                cookie: to.cookie,
                other: about.cookie,
                number,
            };
            let told = self.guests.get(&to.guest)?.pair.tell(&found, None);
            told.then_some(())?;
        }
        Some(())
    }

    /// Two programs get a channel to each other, once for all connections in which the same one claims.
    fn introduce(&mut self, claiming: u32, offering: u32) -> Option<u32> {
        if let Some(number) = self.introduced.get(&(claiming, offering)) {
            return Some(*number);
        }
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let kind = SocketType::SEQPACKET;
        let (near, far) = socketpair(AddressFamily::UNIX, kind, flags, None).ok()?;
        self.next_introduction = self.next_introduction.wrapping_add(1);
        let number = self.next_introduction;
        let pair = |guest| self.guests.get(guest).map(|it| &it.pair);
        let (claimer, offerer) = (pair(&claiming)?, pair(&offering)?);
        let uids = [claimer.peer().uid, offerer.peer().uid];
        let tell = |to: &Pair, uid, claims, channel: &OwnedFd| {
            let it = Introduction {
                number,
                uid,
                same_user: uids[0] == uids[1],
                claims,
            };
            to.tell(&Message::Introduce(it), Some(channel.as_fd()))
                .then_some(())
        };
        tell(offerer, uids[0], false, &near)?;
        tell(claimer, uids[1], true, &far)?;
        self.introduced.insert((claiming, offering), number);
        Some(number)
    }
}
