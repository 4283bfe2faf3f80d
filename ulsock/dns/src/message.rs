//! Messages of DNS (RFC 1035, section 4; RFC 6891 for EDNS): questions, and of answers what is asked for here. Whatever
//! arrives is hostile.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::name;

const HEADER: usize = 12;
/// What a path carries without fragments; a longer answer comes by TCP.
const UDP_PAYLOAD: u16 = 1232;
/// Of an answer: more than fit into 64 KiB.
const MOST_RECORDS: usize = 8192;
/// Names that stand for others.
const MOST_ALIASES: usize = 8;

const RESPONSE: u16 = 0x8000;
const TRUNCATED: u16 = 0x0200;
const RECURSION_DESIRED: u16 = 0x0100;
/// In a question: we understand it (RFC 6840, section 5.7).
const AUTHENTIC: u16 = 0x0020;
const INTERNET: u16 = 1;
const CNAME: u16 = 5;
const OPT: u16 = 41;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    A = 1,
    Txt = 16,
    Aaaa = 28,
    Srv = 33,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub name: String,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Address(IpAddr),
    /// All strings of it, one behind the other.
    Text(Vec<u8>),
    Service {
        port: u16,
        target: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Good,
    /// There is no such name.
    NoName,
    /// The server's own word for what is wrong.
    Other(u16),
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub code: Code,
    pub truncated: bool,
    pub authentic: bool,
    /// With the time to live of each, in seconds.
    pub records: Vec<(Record, u32)>,
}

pub fn question(id: u16, question: &Question) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let flags = RECURSION_DESIRED | AUTHENTIC;
    // One question, and one record beside it.
    for word in [id, flags, 1, 0, 0, 1] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend(name::encode(&question.name)?);
    for word in [question.kind as u16, INTERNET] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.push(0);
    for word in [OPT, UDP_PAYLOAD, 0, 0, 0] {
        bytes.extend(word.to_be_bytes());
    }
    Ok(bytes)
}

/// Of an answer, or what claims to be one.
pub fn id(message: &[u8]) -> Option<u16> {
    word(message, 0)
}

/// `None`: it is no answer to that question.
pub fn reply(message: &[u8], asked: &Question) -> Option<Reply> {
    let flags = word(message, 2)?;
    let (questions, answers) = (word(message, 4)?, word(message, 6)?);
    let (name, at) = name::decode(message, HEADER)?;
    let is_it = name == asked.name.to_ascii_lowercase()
        && word(message, at)? == asked.kind as u16
        && word(message, at + 2)? == INTERNET;
    if flags & RESPONSE == 0 || questions != 1 || !is_it {
        return None;
    }
    let truncated = flags & TRUNCATED != 0;
    let records = match truncated {
        true => Vec::new(),
        false => records(message, at + 4, answers.into(), asked)?,
    };
    Some(Reply {
        code: match flags & 0xf {
            0 => Code::Good,
            3 => Code::NoName,
            other => Code::Other(other),
        },
        truncated,
        authentic: flags & AUTHENTIC != 0,
        records,
    })
}

/// Where something stands in the message.
struct Raw {
    owner: String,
    kind: u16,
    ttl: u32,
    start: usize,
    end: usize,
}

fn records(
    message: &[u8],
    mut at: usize,
    count: usize,
    asked: &Question,
) -> Option<Vec<(Record, u32)>> {
    let mut all = Vec::new();
    for _ in 0..count.min(MOST_RECORDS) {
        let raw = raw(message, at)?;
        at = raw.end;
        all.push(raw);
    }
    let mut owner = asked.name.to_ascii_lowercase();
    let mut longest = u32::MAX;
    for _ in 0..MOST_ALIASES {
        let alias = all.iter().find(|it| it.kind == CNAME && it.owner == owner);
        let Some(alias) = alias else {
            break;
        };
        owner = name::decode(message, alias.start)?.0;
        longest = longest.min(alias.ttl);
    }
    let asked_for = |it: &&Raw| it.kind == asked.kind as u16 && it.owner == owner;
    all.iter()
        .filter(asked_for)
        .map(|it| Some((record(message, it, asked.kind)?, it.ttl.min(longest))))
        .collect()
}

fn raw(message: &[u8], at: usize) -> Option<Raw> {
    let (owner, at) = name::decode(message, at)?;
    let (kind, class) = (word(message, at)?, word(message, at + 2)?);
    let ttl = u32::from(word(message, at + 4)?) << 16 | u32::from(word(message, at + 6)?);
    let length = usize::from(word(message, at + 8)?);
    let start = at + 10;
    let end = start + length;
    (class == INTERNET && end <= message.len()).then_some(Raw {
        owner,
        kind,
        // RFC 2181, section 8.
        ttl: if ttl >> 31 == 0 { ttl } else { 0 },
        start,
        end,
    })
}

fn record(message: &[u8], raw: &Raw, kind: Kind) -> Option<Record> {
    let data = &message[raw.start..raw.end];
    Some(match kind {
        Kind::A => Record::Address(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).into()),
        Kind::Aaaa => Record::Address(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).into()),
        Kind::Txt => Record::Text(strings(data)?),
        Kind::Srv => {
            let (target, end) = name::decode(message, raw.start + 6)?;
            if end != raw.end {
                return None;
            }
            let port = word(message, raw.start + 4)?;
            Record::Service { port, target }
        }
    })
}

fn strings(mut data: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while let Some((length, rest)) = data.split_first() {
        let (string, rest) = rest.split_at_checked(usize::from(*length))?;
        text.extend(string);
        data = rest;
    }
    Some(text)
}

fn word(message: &[u8], at: usize) -> Option<u16> {
    let bytes = message.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: &[u8] = b"\x01a\x07example\x03org\0";

    fn asked(kind: Kind) -> Question {
        Question {
            name: "a.Example.org".to_owned(),
            kind,
        }
    }

    /// An answer with these records, each of its kind, owner and data.
    fn answer(kind: Kind, flags: u16, records: &[(u16, &[u8], &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [7, RESPONSE | flags, 1, records.len() as u16, 0, 0] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(TARGET);
        for word in [kind as u16, INTERNET] {
            bytes.extend(word.to_be_bytes());
        }
        for (kind, owner, data) in records {
            bytes.extend(*owner);
            for word in [*kind, INTERNET, 0, 60, data.len() as u16] {
                bytes.extend(word.to_be_bytes());
            }
            bytes.extend(*data);
        }
        bytes
    }

    #[test]
    fn a_question_is_read_as_one() {
        let asked = asked(Kind::Txt);
        let bytes = question(7, &asked).unwrap();
        assert_eq!(id(&bytes), Some(7));
        assert_eq!(reply(&bytes, &asked), None, "and is no answer");
    }

    #[test]
    fn records_of_each_kind() {
        let one = |kind: Kind, data: &[u8]| {
            let bytes = answer(kind, 0, &[(kind as u16, &[0xc0, 12], data)]);
            reply(&bytes, &asked(kind)).map(|it| it.records)
        };
        let address: IpAddr = [10, 0, 0, 1].into();
        let expected = |record| Some(vec![(record, 60)]);
        assert_eq!(
            one(Kind::A, &[10, 0, 0, 1]),
            expected(Record::Address(address))
        );
        assert_eq!(one(Kind::A, &[10, 0, 0]), None);
        assert_eq!(
            one(Kind::Txt, b"\x02ab\x01c"),
            expected(Record::Text(b"abc".to_vec()))
        );
        assert_eq!(one(Kind::Txt, b"\x05ab"), None);
        let service = Record::Service {
            port: 4690,
            target: "a.example.org".to_owned(),
        };
        let data = [&[0, 0, 0, 0, 0x12, 0x52], TARGET].concat();
        assert_eq!(one(Kind::Srv, &data), expected(service));
        assert_eq!(one(Kind::Srv, &[&data[..], b"x"].concat()), None);
    }

    #[test]
    fn aliases_are_followed_and_strangers_are_not_heard() {
        let alias = (CNAME, &[0xc0, 12][..], &b"\x01b\xc0\x0e"[..]);
        let there = (Kind::A as u16, &b"\x01b\xc0\x0e"[..], &[10, 0, 0, 2][..]);
        let stranger = (Kind::A as u16, &b"\x01c\xc0\x0e"[..], &[10, 0, 0, 3][..]);
        let bytes = answer(Kind::A, AUTHENTIC, &[alias, stranger, there]);
        let reply = reply(&bytes, &asked(Kind::A)).unwrap();
        assert!(reply.authentic && !reply.truncated);
        let address: IpAddr = [10, 0, 0, 2].into();
        assert_eq!(reply.records, [(Record::Address(address), 60)]);
    }

    #[test]
    fn answers_to_other_questions() {
        let bytes = answer(Kind::A, 0, &[]);
        assert_eq!(reply(&bytes, &asked(Kind::Aaaa)), None);
        let other = Question {
            name: "b.example.org".to_owned(),
            kind: Kind::A,
        };
        assert_eq!(reply(&bytes, &other), None);
        let code = |flags| {
            reply(&answer(Kind::A, flags, &[]), &asked(Kind::A))
                .unwrap()
                .code
        };
        assert_eq!(code(3), Code::NoName);
        assert_eq!(code(2), Code::Other(2));
    }

    /// Whatever byte is another one, and wherever it ends: no panic, and never a record that is not there.
    #[test]
    fn any_byte_may_be_wrong() {
        let data = [&[0, 0, 0, 0, 0x12, 0x52], TARGET].concat();
        let srv = (Kind::Srv as u16, &[0xc0, 12][..], &data[..]);
        let good = answer(Kind::Srv, 0, &[srv, srv]);
        for end in 0..good.len() {
            let _ = reply(&good[..end], &asked(Kind::Srv));
        }
        for at in 0..good.len() {
            for value in 0..=255 {
                let mut bad = good.clone();
                bad[at] = value;
                if let Some(reply) = reply(&bad, &asked(Kind::Srv)) {
                    assert!(reply.records.len() <= 2);
                }
            }
        }
    }
}
