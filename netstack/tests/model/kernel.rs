//! Kernel TCP, one direction: reliable and in order, until a host dies.

use super::state::{End, Holder, Run, Side, World};

/// [F14] The record that is the first thing in a direction's kernel stream after a promotion. Its key is
/// not told here: both sides know it, and no program can guess it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resume {
    pub epoch: u8,
    /// How far its writer has the other direction.
    pub received: u8,
    /// The offset of the byte that follows the record.
    pub from: u8,
    /// How far its writer's program has written.
    pub written: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    Byte(u8),
    Resume(Resume),
}

/// What follows the last item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tip {
    #[default]
    Open,
    Fin,
    /// A reset, or no sign of life from the host.
    Broken,
}

const MOST_ITEMS: usize = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pipe {
    items: [u16; MOST_ITEMS],
    len: u8,
    pub tip: Tip,
}

const RECORD: u16 = 0x8000;

impl Pipe {
    pub fn len(&self) -> u8 {
        self.len
    }

    pub fn front(&self) -> Option<Item> {
        let first = (self.len > 0).then_some(self.items[0])?;
        if first & RECORD == 0 {
            return Some(Item::Byte(first as u8));
        }
        let field = |shift: u16| (first >> shift & 7) as u8;
        Some(Item::Resume(Resume {
            epoch: field(9),
            received: field(6),
            from: field(3),
            written: field(0),
        }))
    }

    pub fn pop(&mut self) {
        self.items.rotate_left(1);
        self.len -= 1;
        self.items[self.len as usize] = 0;
    }

    fn push(&mut self, item: Item) {
        assert_ne!(self.tip, Tip::Fin, "nothing can follow FIN");
        self.items[self.len as usize] = match item {
            Item::Byte(offset) => u16::from(offset),
            Item::Resume(r) => [r.epoch, r.received, r.from, r.written]
                .into_iter()
                .fold(RECORD >> 12, |word, field| word << 3 | u16::from(field)),
        };
        self.len += 1;
    }

    /// Only the first so many ever arrive.
    pub fn cut_to(&mut self, len: u8) {
        self.items[len as usize..].fill(0);
        self.len = len;
        self.tip = Tip::Broken;
    }
}

impl World {
    /// Writes to the kernel. What nobody will read draws a reset, unless the host is no more.
    pub fn push(&mut self, side: Side, item: Item) {
        let peer = side.other();
        if self.ends[peer as usize].holder != Holder::Gone {
            self.pipes[side as usize].push(item);
        } else if self.engines[peer as usize].run != Run::Dead {
            self.pipes[peer as usize].tip = Tip::Broken;
        }
    }

    /// Closes the socket: FIN, or a reset if something is unread. Also what the kernel does for the dead.
    pub fn close_socket(&mut self, side: Side) {
        let unread = self.pipes[side.other() as usize].len() > 0;
        let pipe = &mut self.pipes[side as usize];
        if unread {
            pipe.tip = Tip::Broken;
        } else if pipe.tip == Tip::Open {
            pipe.tip = Tip::Fin;
        }
        self.leave(side);
    }

    /// Nobody acts for this side any more. What it knew is forgotten, so that there are fewer states.
    pub fn leave(&mut self, side: Side) {
        self.pipes[side.other() as usize].cut_to(0);
        let end = self.end(side);
        *end = End {
            holder: Holder::Gone,
            crashed: end.crashed,
            entrusted: end.entrusted,
            epoch: end.epoch,
            written: end.written,
            closed: end.closed,
            ..End::NEW
        };
    }
}
