//! From the records of a domain to entries: which targets the service has, and of each its address, and its line.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use nicd::source::{Entry, MOST_ENTRIES};

use crate::message::{Code, Kind, Question, Record, Reply};
use crate::resolver::{Answered, Resolver};

/// A TXT record that begins so is ours: a name may have others, too.
const MARK: &[u8] = b"ulsock ";

/// All that is there, and how long it is good for.
pub struct Answer {
    pub entries: Vec<Entry>,
    pub ttl: Duration,
}

pub fn service(domain: &str) -> String {
    format!("_ulsock._udp.{domain}")
}

pub fn read(resolver: &Resolver, domain: &str, by: Instant) -> Result<Answer, String> {
    let service = service(domain);
    let asked = ask(resolver, &[&service], Kind::Srv, by);
    let asked = asked.into_iter().next().ok_or("no answer")??;
    let (ports, mut ttl) = ports(&service, asked)?;
    let targets: Vec<&str> = ports.keys().map(String::as_str).collect();
    let texts = ask(resolver, &targets, Kind::Txt, by);
    let addresses = addresses(resolver, &targets, by);
    answered(&texts).and_then(|()| answered(&addresses))?;
    let mut entries = Vec::new();
    for (((target, port), text), address) in ports.iter().zip(texts).zip(addresses) {
        for reply in [&text, &address] {
            ttl = ttl.min(reply.as_ref().map_or(0, shortest));
        }
        let line = text.and_then(|text| line(*port, &text, &address?));
        entries.push(match line {
            Ok(line) => Entry::new(target.as_bytes(), &line),
            Err(why) => Entry::broken(target.as_bytes(), &why),
        });
    }
    Ok(Answer {
        entries,
        ttl: Duration::from_secs(ttl.into()),
    })
}

fn ask(resolver: &Resolver, names: &[&str], kind: Kind, by: Instant) -> Vec<Answered> {
    let question = |name: &&str| Question {
        name: (*name).to_owned(),
        kind,
    };
    let questions: Vec<Question> = names.iter().map(question).collect();
    resolver.ask(&questions, by)
}

/// One target that gets no answer is that one's fault. If none gets one, it is the server's.
fn answered(replies: &[Answered]) -> Result<(), String> {
    match replies.first() {
        Some(Err(why)) if replies.iter().all(Result::is_err) => Err(why.clone()),
        _ => Ok(()),
    }
}

/// The targets of the service with their ports. A single target that is the root says that there are none (RFC 2782); no
/// record at all may be a mistake, and is one here.
fn ports(service: &str, reply: Reply) -> Result<(BTreeMap<String, u16>, u32), String> {
    let ttl = shortest(&reply);
    let mut ports = BTreeMap::new();
    match reply.code {
        Code::Good | Code::NoName if reply.records.is_empty() => {
            return Err(format!("{service} has no SRV record"));
        }
        Code::Good => {}
        code => return Err(format!("{service}: {}", in_words(code))),
    }
    let is_only = reply.records.len() == 1;
    for (record, _) in reply.records {
        match record {
            Record::Service { target, .. } if target.is_empty() && is_only => {}
            Record::Service { target, port } if !target.is_empty() && port != 0 => {
                ports.insert(target, port);
            }
            _ => return Err(format!("{service}: an SRV record leads nowhere")),
        }
    }
    match ports.len() > MOST_ENTRIES {
        true => Err(format!("{service} has more than {MOST_ENTRIES} targets")),
        false => Ok((ports, ttl)),
    }
}

fn in_words(code: Code) -> String {
    match code {
        Code::Good => "an answer without an error".to_owned(),
        Code::NoName => "there is no such name".to_owned(),
        Code::Other(2) => {
            "the server has failed (SERVFAIL; so it says of forged answers, too)".to_owned()
        }
        Code::Other(5) => "the server refuses".to_owned(),
        Code::Other(code) => format!("the server says {code}"),
    }
}

/// Of IPv4, or of IPv6 for those who have none.
fn addresses(resolver: &Resolver, targets: &[&str], by: Instant) -> Vec<Answered> {
    let mut replies = ask(resolver, targets, Kind::A, by);
    let has_none = |reply: &Answered| {
        let reply = reply.as_ref();
        reply.is_ok_and(|it| it.code == Code::Good && it.records.is_empty())
    };
    let places: Vec<usize> = (0..replies.len())
        .filter(|it| has_none(&replies[*it]))
        .collect();
    let names: Vec<&str> = places.iter().map(|place| targets[*place]).collect();
    for (place, reply) in places
        .into_iter()
        .zip(ask(resolver, &names, Kind::Aaaa, by))
    {
        replies[place] = reply;
    }
    replies
}

fn shortest(reply: &Reply) -> u32 {
    let ttls = reply.records.iter().map(|(_, ttl)| *ttl);
    ttls.min().unwrap_or(0)
}

/// As of a peers file.
fn line(port: u16, text: &Reply, address: &Reply) -> Result<Vec<u8>, String> {
    for (reply, what) in [(text, "TXT"), (address, "address")] {
        if reply.code != Code::Good {
            return Err(format!("its {what} record: {}", in_words(reply.code)));
        }
    }
    let ip: IpAddr = match address.records[..] {
        [(Record::Address(ip), _)] => ip,
        [] => return Err("it has no address".to_owned()),
        _ => return Err("it has several addresses: one is wanted".to_owned()),
    };
    let mut ours = text.records.iter().filter_map(|(record, _)| match record {
        Record::Text(text) => text.strip_prefix(MARK),
        _ => None,
    });
    let words = match (ours.next(), ours.next()) {
        (Some(words), None) => words,
        (None, _) => return Err("no TXT record of it begins with \"ulsock \"".to_owned()),
        _ => return Err("several TXT records of it begin with \"ulsock \"".to_owned()),
    };
    let control = SocketAddr::new(ip, port).to_string();
    Ok([control.as_bytes(), b" ", words].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(records: Vec<Record>) -> Reply {
        Reply {
            code: Code::Good,
            truncated: false,
            authentic: true,
            records: records.into_iter().map(|it| (it, 60)).collect(),
        }
    }

    fn text(bytes: &[u8]) -> Record {
        Record::Text(bytes.to_vec())
    }

    #[test]
    fn lines() {
        let v4 = reply(vec![Record::Address([10, 0, 0, 1].into())]);
        let other = text(b"v=spf1");
        let ours = reply(vec![other.clone(), text(b"ulsock keys=x")]);
        let good = line(4690, &ours, &v4).unwrap();
        assert_eq!(good, b"10.0.0.1:4690 keys=x");
        let both = reply(vec![
            Record::Address([10, 0, 0, 1].into()),
            Record::Address([10, 0, 0, 2].into()),
        ]);
        assert!(line(4690, &ours, &both).is_err());
        assert!(line(4690, &ours, &reply(Vec::new())).is_err());
        assert!(line(4690, &reply(vec![other]), &v4).is_err());
        let twice = reply(vec![text(b"ulsock a"), text(b"ulsock b")]);
        assert!(line(4690, &twice, &v4).is_err());
        let failed = Reply {
            code: Code::Other(2),
            ..reply(Vec::new())
        };
        assert!(line(4690, &failed, &v4).is_err());
    }

    #[test]
    fn no_target_at_all_is_said_by_a_dot() {
        let service = |target: &str, port| Record::Service {
            port,
            target: target.to_owned(),
        };
        let ports = |records| ports("_ulsock._udp.x", reply(records));
        assert!(ports(Vec::new()).is_err());
        assert!(ports(vec![service("", 0)]).unwrap().0.is_empty());
        assert!(ports(vec![service("", 0), service("a", 1)]).is_err());
        assert!(ports(vec![service("a", 0)]).is_err());
        assert_eq!(
            ports(vec![service("a", 1), service("b", 2)])
                .unwrap()
                .0
                .len(),
            2
        );
    }
}
