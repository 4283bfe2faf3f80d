//! Groups: reliable multicast. What a member sends comes to all others, of each sender in order, and everybody hears who joins,
//! leaves and fails.
//!
//! On one host a sender writes each message once, into a ring of its own, and all members read it there. Another host gets one
//! copy: one of its members, the relay, writes it into a ring for the others. Each member has a thread of ulsock's, which meets
//! the others by their names, connects to them, and does all that is not reading and writing rings.

mod agent;
mod error;
mod life;
mod member;
mod memory;
mod near;
mod receiver;
mod seats;
mod sender;
mod shared;
mod stream;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use crate::names::Names;
use crate::start::start;

pub use error::GroupError;
pub use member::{Event, Member, Options};
pub use receiver::Receiver;
pub use sender::Sender;

use life::Life;
use memory::{OwnPage, OwnRing, is_ring_size};
use shared::Shared;

/// A membership in a group. It leaves when this is dropped, or both halves of it.
pub struct Group {
    sender: Sender,
    receiver: Receiver,
    number: u32,
}

impl Group {
    /// Joins the group of this name. Who else is there is told by [`Event::Joined`], one after the other.
    pub fn join(names: &Names, service: &str, options: Options) -> Result<Group, GroupError> {
        start();
        if !is_ring_size(options.ring as u64) {
            return Err(GroupError::BadRing);
        }
        let (ring, ring_fd) = OwnRing::new(options.ring as u64).map_err(no_memory)?;
        let (page, page_fd) = OwnPage::new().map_err(no_memory)?;
        let number = os::random()? as u32;
        let shared = Arc::new(Shared::new(options, ring, page)?);
        let bells = [&shared.receiver_bell, &shared.sender_bell];
        // Without it, as in a process that may not meet others, all bytes go by messages.
        let deposit = near::give_member(ring_fd, page_fd, bells).ok();
        let (names, service) = (names.clone(), service.to_owned());
        let life = Life::begin(&shared, move |shared, tell| {
            agent::run(shared, &names, &service, number, deposit, tell);
        })?;
        let life = Arc::new(life);
        Ok(Group {
            sender: Sender::new(&shared, &life),
            receiver: Receiver::new(&shared, &life),
            number,
        })
    }

    /// By which others know this member.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// For two threads, or two tasks.
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }

    pub fn sender(&mut self) -> &mut Sender {
        &mut self.sender
    }

    pub fn receiver(&mut self) -> &mut Receiver {
        &mut self.receiver
    }

    /// All who get what is sent now.
    pub fn members(&self) -> Vec<Member> {
        self.sender.members()
    }

    /// [`Sender::send`]
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), GroupError> {
        self.sender.send(bytes)
    }

    /// [`Receiver::recv`]
    pub fn recv(&mut self, room: &mut [u8]) -> Result<Event, GroupError> {
        self.receiver.recv(room)
    }

    /// [`Receiver::recv_within`]
    pub fn recv_within(
        &mut self,
        time: Duration,
        room: &mut [u8],
    ) -> Result<Option<Event>, GroupError> {
        self.receiver.recv_within(time, room)
    }

    /// Leaves as soon as all others have taken what this member has sent.
    pub fn leave(mut self) -> Result<(), GroupError> {
        self.sender.flush()
    }
}

fn no_memory(error: shm::segment::SegmentError) -> GroupError {
    GroupError::Os(std::io::Error::other(error.to_string()))
}
