//! What an attacker sends: noise, and packets made from ones that it has seen.

use netstack::wire::{Addresses, HEADER, Kind, Packet, Seal, body, packet};

use super::script::Script;

const ACK: u8 = 0x80;
const MARKS: u8 = 0x20;
const CRC: std::ops::Range<usize> = 12..16;

/// What an eavesdropper knows of the receiver of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub addresses: Addresses,
    pub sender: u64,
    pub receiver: u64,
}

#[derive(Clone, Debug)]
pub struct Attack {
    /// Which of the packets it has seen is taken, counted from the newest.
    pub model: usize,
    pub change: Change,
}

#[derive(Clone, Debug)]
pub enum Change {
    /// Comes again as it was.
    None,
    /// Comes again another way than it went.
    Way,
    /// Up to 32 bits in a row are others.
    Burst { at: usize, pattern: u32 },
    /// The end is missing, or there is more.
    Length { length: usize },
    /// Bytes that mean nothing.
    Noise(Vec<u8>),
    /// Some fields are others, and the CRC is right.
    Fields(Box<Fields>),
}

/// How fields are changed.
#[derive(Clone, Debug)]
pub struct Fields {
    kind: Option<Kind>,
    flip_ask: bool,
    path: Option<u8>,
    number: Option<(u8, u32)>,
    token: Option<u64>,
    offset: Option<u32>,
    credit: Option<u32>,
    length: Option<usize>,
    ack: Option<Block>,
}

/// An acknowledgement block of the attacker's own.
#[derive(Clone, Debug)]
struct Block {
    path: u8,
    delay: u16,
    /// Added to the largest number in the model, or to the number of the packet.
    ahead: u32,
    ranges: Vec<(u16, u16)>,
    marks: Option<(u32, u32)>,
}

impl Attack {
    pub fn draw(script: &mut Script<'_>) -> Attack {
        let change = match script.byte() % 12 {
            0 => Change::None,
            1 => Change::Way,
            2 => Change::Burst {
                at: script.short().into(),
                pattern: script.word().max(1),
            },
            3 => Change::Length {
                length: script.short().into(),
            },
            4 => {
                let length = script.byte().into();
                Change::Noise(script.bytes(length).to_vec())
            }
            _ => Change::Fields(Box::new(Fields::draw(script))),
        };
        Attack {
            model: script.byte().into(),
            change,
        }
    }

    /// The bytes that it sends, given ones that it has seen.
    pub fn make(&self, seen: &[u8], known: &Known) -> Vec<u8> {
        let mut bytes = seen.to_vec();
        match &self.change {
            Change::None | Change::Way => {}
            Change::Burst { at, pattern } => flip(&mut bytes, *at, *pattern),
            Change::Length { length } => bytes.resize(length % 3000, 0),
            Change::Noise(noise) => bytes.clone_from(noise),
            Change::Fields(fields) => bytes = fields.apply(seen, known),
        }
        bytes
    }
}

/// Every such burst is found, but for those across an edge of the CRC field: they stop before it.
fn flip(bytes: &mut [u8], at: usize, pattern: u32) {
    let bits = bytes.len() * 8;
    let from = at % bits.max(1);
    let edges = [CRC.start * 8, CRC.end * 8, bits];
    let end = edges.into_iter().find(|&edge| edge > from);
    for bit in from..end.unwrap_or(bits).min(from + 32) {
        if pattern >> (bit - from) & 1 != 0 {
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
        }
    }
}

impl Fields {
    fn draw(script: &mut Script<'_>) -> Fields {
        let which = script.short();
        let some = |bit: u32| which >> bit & 1 != 0;
        let (kind, path, number, token) =
            (some(0) && some(1), some(2) && some(3), some(4), some(5));
        let (offset, credit, length, ack) = (some(6), some(7), some(8), some(9));
        Fields {
            kind: kind.then(|| Kind::ALL[usize::from(script.byte()) % Kind::ALL.len()]),
            flip_ask: some(10),
            path: path.then(|| script.byte() % 8),
            number: number.then(|| (script.byte() % 3, script.word())),
            token: (token && some(11)).then(|| match some(12) {
                true => u64::from(script.byte() % 4) << 32 | u64::from(script.byte() % 4),
                false => script.long(),
            }),
            offset: offset.then(|| script.near(0)),
            credit: credit.then(|| script.near(0)),
            length: length.then(|| usize::from(script.short() % 1500)),
            ack: ack.then(|| Block::draw(script)),
        }
    }

    fn apply(&self, seen: &[u8], known: &Known) -> Vec<u8> {
        let Ok(model) = Packet::parse(seen) else {
            return seen.to_vec();
        };
        let mut header = model.header;
        let kind = self.kind.unwrap_or(header.kind);
        header.ask ^= self.flip_ask;
        header.path = self.path.unwrap_or(header.path);
        // A number that was used is no use to the attacker.
        header.number = match self.number {
            None | Some((0, _)) => header.number.wrapping_add(1000),
            Some((1, number)) => header.number.wrapping_add(number % 3000),
            Some((_, number)) => number,
        };
        header.token = self.token.unwrap_or(header.token);
        header.offset = header.offset.wrapping_add(self.offset.unwrap_or(0));
        header.credit = header.credit.wrapping_add(self.credit.unwrap_or(0));
        let mut fixed = [0; HEADER];
        header.kind = kind;
        keep_what_there_is(&mut header);
        let body = self.body(kind, &model);
        header.emit(&mut fixed, None, body.len());
        let mut bytes = fixed.to_vec();
        self.put_block(kind, &model, &mut bytes);
        let seal = match kind {
            Kind::Hello | Kind::Welcome => Seal::stranger(&known.addresses),
            _ => Seal::link(&known.addresses, known.sender, known.receiver),
        };
        let crc = seal.head(&bytes).over(&body);
        bytes.extend_from_slice(&body);
        packet::seal(&mut bytes, crc);
        bytes
    }

    fn body(&self, kind: Kind, model: &Packet<'_>) -> Vec<u8> {
        let length = match kind {
            Kind::Data => self.length.unwrap_or(model.body.len()).max(1),
            Kind::Ping => self.length.unwrap_or(model.body.len()),
            Kind::Hello => body::HELLO,
            Kind::Welcome | Kind::Confirm => body::WELCOME,
            Kind::Open | Kind::Accept => body::OPEN,
            Kind::Reset => body::RESET,
            Kind::Ack | Kind::Credit | Kind::Close | Kind::Bye => 0,
        };
        let mut body = model.body.to_vec();
        body.resize(length, 0);
        // Names and offsets of its own, now and then.
        if let (Some(number), Some(byte)) = (self.offset, body.get_mut(7)) {
            *byte ^= number as u8;
        }
        body
    }

    fn put_block(&self, kind: Kind, model: &Packet<'_>, bytes: &mut Vec<u8>) {
        if matches!(kind, Kind::Hello | Kind::Welcome | Kind::Confirm) {
            return;
        }
        let own = Block {
            path: 0,
            delay: 0,
            ahead: 0,
            ranges: vec![(0, 0)],
            marks: None,
        };
        let block = match (&self.ack, kind) {
            (Some(block), _) => block,
            (None, Kind::Ack) => &own,
            (None, _) => return,
        };
        let largest = model.ack.map_or(model.header.number, |ack| ack.largest());
        bytes[1] |= ACK;
        bytes.extend([block.path, block.ranges.len() as u8]);
        bytes.extend(block.delay.to_be_bytes());
        bytes.extend(largest.wrapping_add(block.ahead).to_be_bytes());
        for (length, gap) in &block.ranges {
            bytes.extend(length.to_be_bytes());
            bytes.extend(gap.to_be_bytes());
        }
        if let Some((capable, congested)) = block.marks {
            bytes[1] |= MARKS;
            bytes.extend(capable.to_be_bytes());
            bytes.extend(congested.to_be_bytes());
        }
    }
}

impl Block {
    fn draw(script: &mut Script<'_>) -> Block {
        let count = script.byte() % 32 + 1;
        let few = |number: u16| {
            if number & 1 == 0 {
                number >> 13
            } else {
                number
            }
        };
        let mut ranges: Vec<_> = (0..count)
            .map(|_| (few(script.short()), few(script.short())))
            .collect();
        if let Some(last) = ranges.last_mut() {
            last.1 = 0;
        }
        let marks = script.byte() & 1 == 0;
        Block {
            path: script.byte() % 3,
            delay: script.short(),
            ahead: script.near(0),
            ranges,
            marks: marks.then(|| (script.word(), script.near(0))),
        }
    }
}

/// Fields that the kind does not have are zero, or the packet would not even be read.
fn keep_what_there_is(header: &mut netstack::wire::Header) {
    let kind = header.kind;
    if kind == Kind::Hello {
        header.tag = 0;
    }
    if !kind.is_asking() {
        (header.number, header.ask) = (0, false);
    }
    if !kind.has_token() {
        header.token = 0;
    }
    if !kind.has_token() || kind == Kind::Accept {
        (header.offset, header.credit) = (0, 0);
    }
}
