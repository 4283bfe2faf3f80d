//! The state of the model: two hosts, one connection, all its promotions, as small as it can be told.
//!
//! A byte is its offset, so that what a reader is given can be checked without keeping it. Everything
//! that the link has sent stays on the wire for ever: it may arrive never, late, twice, in any order.

pub use super::kernel::Pipe;

/// Promotions that a run can have.
pub const EPOCHS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The side that connected: it alone proposes promotions.
    A,
    /// The side that accepted.
    B,
}

pub const SIDES: [Side; 2] = [Side::A, Side::B];

impl Side {
    pub fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }
}

/// The process that holds the kernel socket of a side, and acts for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    Program,
    /// [F24] The program has closed; its nicd has a duplicate until all is said.
    Nicd,
    Gone,
}

/// Where a side stands between the carriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Kernel TCP carries both directions.
    Kernel,
    /// A promotion is proposed (A) or agreed to (B), but the word does not say OPEN yet.
    Joining,
    /// The link carries both directions.
    Linked,
    /// Our tail word is frozen; RESUME is still to be written.
    Frozen,
    /// RESUME is written; what the peer may lack goes to the kernel.
    Resending,
    /// An error: nothing is sent any more, what is in the ring can still be read.
    Over,
}

/// What the reader has been told about the end of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    Reading,
    Eof,
    Error,
}

/// One side's socket, as its library knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct End {
    pub holder: Holder,
    /// The process died without closing.
    pub crashed: bool,
    /// [F31] And nicd had its socket.
    pub entrusted: bool,
    /// The program makes no calls, for whatever reason; it goes on some time, or never.
    pub stopped: bool,
    pub stage: Stage,
    /// The last promotion that we took part in; 0 before the first.
    pub epoch: u8,
    /// The peer's RESUME of this epoch has been read: plain bytes follow. Before, nothing else can come.
    pub heard: bool,
    /// Offset of the next byte from the kernel; behind the ring's tail as long as bytes come twice.
    pub at: u8,
    /// We gave this epoch up before it was open: the peer may not know.
    pub aborted: bool,
    /// Since then we have written plain bytes to the kernel: that tells it.
    pub spoke: bool,
    /// Bytes accepted from the program.
    pub written: u8,
    /// The next byte that goes to the kernel, where that carries.
    pub next: u8,
    /// The program writes nothing more.
    pub closed: bool,
    /// Bytes given to the program.
    pub read: u8,
    /// How far the peer had written when it resumed: no end of the stream comes before.
    pub promised: u8,
    pub verdict: Verdict,
}

impl End {
    pub const NEW: End = End {
        holder: Holder::Program,
        crashed: false,
        entrusted: false,
        stopped: false,
        stage: Stage::Kernel,
        epoch: 0,
        heard: true,
        at: 0,
        aborted: false,
        spoke: false,
        written: 0,
        next: 0,
        closed: false,
        read: 0,
        promised: 0,
        verdict: Verdict::Reading,
    };
}

/// What the library and the engine of one host share for one promotion. Never used for another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Segment {
    pub tail: Tail,
    /// The sending ring: begin of the stretch, freed and filled up to.
    pub begin: u8,
    pub freed: u8,
    pub filled: u8,
    /// The program writes nothing more.
    pub closed: bool,
    /// The peer has acknowledged the end as well.
    pub end_acked: bool,
    /// Bytes in the receiving ring that are not of this connection.
    pub alien: u8,
}

/// The one word that the engine and the library of the receiver change by compare-and-swap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tail {
    /// All bytes before are there for the reader.
    pub offset: u8,
    /// The peer is bound to this promotion.
    pub open: bool,
    /// The stream ends here.
    pub ended: bool,
    /// Nothing in this word changes any more.
    pub frozen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Run {
    Up,
    /// It wakes some time, or never.
    Stopped,
    Crashed,
    /// With its host.
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Engine {
    pub run: Run,
    pub points: [Endpoint; EPOCHS],
}

/// What an engine remembers of a promotion; a crash forgets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub attached: bool,
    /// [F31] nicd has a duplicate of the socket.
    pub has_socket: bool,
    /// Bytes written into the ring beyond its tail, by offset.
    pub islands: u8,
    /// CLOSE has arrived, with the final offset.
    pub closing: bool,
}

/// What a side's engine has sent to the other in one promotion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wire {
    pub open: bool,
    /// DATA of all bytes from the begin of the stretch up to here.
    pub sent: u8,
    pub close: bool,
    /// The highest acknowledgement, and whether it covers the end.
    pub ack: u8,
    pub ack_end: bool,
    /// The highest byte selectively acknowledged, plus one; told only where it is wrongly used.
    pub sack: u8,
}

/// What the two nicds have told each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Talk {
    pub prepare: bool,
    pub agree: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub ends: [End; 2],
    pub engines: [Engine; 2],
    pub segments: [[Segment; EPOCHS]; 2],
    /// By the sending side.
    pub wires: [[Wire; EPOCHS]; 2],
    pub pipes: [Pipe; 2],
    pub talk: [Talk; EPOCHS],
    /// The link carries nothing any more.
    pub cut: bool,
    /// Faults so far.
    pub faults: u8,
    pub wrong: Option<super::property::Wrong>,
}

impl World {
    pub fn new() -> World {
        let engine = Engine {
            run: Run::Up,
            points: Default::default(),
        };
        World {
            ends: [End::NEW; 2],
            engines: [engine; 2],
            segments: Default::default(),
            wires: Default::default(),
            pipes: Default::default(),
            talk: Default::default(),
            cut: false,
            faults: 0,
            wrong: None,
        }
    }

    pub fn end(&mut self, side: Side) -> &mut End {
        &mut self.ends[side as usize]
    }

    pub fn up(&self, side: Side) -> bool {
        self.engines[side as usize].run == Run::Up
    }

    /// The segment of a side in an epoch, which counts from 1.
    pub fn segment(&mut self, side: Side, epoch: u8) -> &mut Segment {
        &mut self.segments[side as usize][epoch as usize - 1]
    }

    pub fn point(&mut self, side: Side, epoch: u8) -> &mut Endpoint {
        &mut self.engines[side as usize].points[epoch as usize - 1]
    }

    pub fn wire(&mut self, side: Side, epoch: u8) -> &mut Wire {
        &mut self.wires[side as usize][epoch as usize - 1]
    }

    /// The tail word of the promotion that a side is or was in last; empty before the first.
    pub fn tail(&self, side: Side) -> Tail {
        match self.ends[side as usize].epoch {
            0 => Tail::default(),
            epoch => self.segments[side as usize][epoch as usize - 1].tail,
        }
    }

    /// The program makes calls.
    pub fn calls(&self, side: Side) -> bool {
        let end = &self.ends[side as usize];
        end.holder == Holder::Program && !end.stopped
    }

    /// Somebody acts for this side: the program, or its nicd if that runs.
    pub fn acts(&self, side: Side) -> bool {
        match self.ends[side as usize].holder {
            Holder::Program => self.calls(side),
            Holder::Nicd => self.up(side),
            Holder::Gone => false,
        }
    }
}
