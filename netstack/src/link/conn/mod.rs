//! A connection: two directions of bytes, and what it owes to the peer.

mod recv;
mod send;

pub use recv::{Placement, Receiving};
pub use send::Sending;

use super::Id;

/// What both hosts have agreed on before a connection is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub name: u64,
    pub send_from: u64,
    pub receive_from: u64,
    /// Bytes of the ring into which we receive.
    pub ring: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnStage {
    /// The peer will open it.
    Expected,
    /// We have asked the peer.
    Opening,
    Open,
    /// Ended by us; the peer has to hear of it.
    Resetting,
}

/// What a connection can owe besides bytes. `[S1]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Owed {
    Open,
    Accept,
    Reset,
    Credit,
    /// A question for credit: CREDIT with ASK.
    Question,
    Close,
}

impl Owed {
    /// In the order in which they are paid.
    pub const ALL: [Owed; 6] = [
        Owed::Open,
        Owed::Accept,
        Owed::Reset,
        Owed::Credit,
        Owed::Question,
        Owed::Close,
    ];
}

/// A set of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debts(u8);

impl Debts {
    pub fn add(&mut self, owed: Owed) {
        self.0 |= 1 << owed as u8;
    }

    pub fn remove(&mut self, owed: Owed) {
        self.0 &= !(1 << owed as u8);
    }

    /// Nothing but this, if it is owed.
    pub fn keep_only(&mut self, owed: Owed) {
        self.0 &= 1 << owed as u8;
    }

    pub fn first(self) -> Option<Owed> {
        let has = |owed: &Owed| self.0 & 1 << *owed as u8 != 0;
        Owed::ALL.into_iter().find(has)
    }

    pub fn has(self, owed: Owed) -> bool {
        self.0 & 1 << owed as u8 != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Where a connection waits for its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    pub control: bool,
    pub lost: bool,
    pub data: bool,
}

impl Queued {
    /// At how many places.
    pub fn count(self) -> usize {
        usize::from(self.control) + usize::from(self.lost) + usize::from(self.data)
    }
}

/// `[S2]` What a connection has sent in a round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    pub round: u64,
    pub spent: u64,
}

#[derive(Debug)]
pub struct Conn {
    pub id: Id,
    pub terms: Terms,
    /// The token by which the peer knows it, once it has told.
    pub peer: Option<u64>,
    pub stage: ConnStage,
    pub path: u8,
    pub send: Sending,
    pub recv: Receiving,
    pub debts: Debts,
    pub queued: Queued,
    pub turn: Turn,
    pub question: Question,
    pub reason: u16,
}

/// `[K5]` When to ask for credit next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Question {
    pub at: Option<crate::time::Instant>,
    /// How often it was asked in vain.
    pub asked: u32,
}

impl Conn {
    pub fn new(id: Id, terms: &Terms, stage: ConnStage, path: u8) -> Conn {
        Conn {
            id,
            terms: *terms,
            peer: None,
            stage,
            path,
            send: Sending::new(terms.send_from),
            recv: Receiving::new(terms.receive_from, terms.ring),
            debts: Debts::default(),
            queued: Queued::default(),
            turn: Turn::default(),
            question: Question::default(),
            reason: 0,
        }
    }

    /// `[C8]` Ended by us. Until the peer's token is known OPEN goes on: else a peer that has heard one
    /// would never hear of the end.
    pub fn reset(&mut self, reason: u16) {
        self.stage = ConnStage::Resetting;
        self.reason = reason;
        self.debts.keep_only(Owed::Open);
        if self.peer.is_some() {
            self.debts.keep_only(Owed::Reset);
            self.debts.add(Owed::Reset);
        }
    }

    /// `[R3]` Whether a packet that was lost has to go again.
    pub fn still_owes(&self, what: Owed) -> bool {
        match what {
            Owed::Open => match self.stage {
                ConnStage::Opening => true,
                ConnStage::Resetting => self.peer.is_none(),
                ConnStage::Expected | ConnStage::Open => false,
            },
            Owed::Accept => self.stage == ConnStage::Open,
            Owed::Credit => self.stage == ConnStage::Open && !self.recv.is_over(),
            Owed::Close => self.stage == ConnStage::Open && self.send.close_is_open(),
            Owed::Reset => self.stage == ConnStage::Resetting,
            // Its own time brings it again.
            Owed::Question => false,
        }
    }

    /// Bytes may go to the peer.
    pub fn can_send(&self) -> bool {
        self.stage == ConnStage::Open
    }

    /// `[C9]` Both directions are over, and both sides know it.
    pub fn is_over(&self) -> bool {
        self.stage == ConnStage::Open && self.send.is_over() && self.recv.is_over()
    }

    /// `[K5]` There are bytes, and no credit.
    pub fn is_blocked(&self) -> bool {
        self.can_send() && self.send.is_blocked()
    }
}
