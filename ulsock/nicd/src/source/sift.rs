//! Of the entries of a source those that can be used together, by the rules of the peers file. What is wrong with an entry
//! costs that entry alone: whoever may write one of them cannot hold up the others, and cannot take what another one has.
//!
//! An entry that was good before, and is not now, stays as it was. Of two that exclude each other the one stays that was
//! there before, as far as we know, also if something else of its line has changed; or else the one that excludes fewer
//! others, by the count of the source, or the first by name. One that is not used keeps nobody out.

mod crowd;
mod kept;

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::peers::{Fault, Peer, Peers};

use super::Entry;
use kept::Kept;

/// More than any cluster of hosts; and 10,000 lines of usual length fit into a peers file.
pub const MOST_ENTRIES: usize = 10_000;
/// Of removing what excludes something else, and only that. Longer chains of entries are nobody's honest work: they go.
const MOST_ROUNDS: usize = 16;

/// The lines that are in use, by their origin.
pub type Last = BTreeMap<String, String>;

/// An entry that is not used, or not as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub origin: String,
    pub why: String,
}

#[derive(Debug)]
pub struct Sifted {
    pub peers: Peers,
    pub lines: Last,
    pub refused: Vec<Refused>,
}

struct Candidate {
    origin: String,
    line: String,
    peer: Peer,
    since: i64,
    /// Another line, which is in use.
    before: Option<(String, Peer)>,
    is_new: bool,
}

impl Candidate {
    /// It is as it was, if it was something.
    fn back(self) -> Option<Candidate> {
        let (line, peer) = self.before?;
        Some(Candidate {
            line,
            peer,
            before: None,
            ..self
        })
    }

    fn is_in_use(&self) -> bool {
        !self.is_new && self.before.is_none()
    }
}

/// An error: nothing of it can be used.
pub fn sift(entries: Vec<Entry>, last: &Last) -> Result<Sifted, String> {
    if entries.len() > MOST_ENTRIES {
        return Err(format!("it has more than {MOST_ENTRIES} entries"));
    }
    let sifted = once(&entries, last);
    match sifted.refused.is_empty() {
        true => Ok(sifted),
        // Some may have stayed as they were, or gone, for the sake of others that have gone themselves.
        false => Ok(once(&entries, &sifted.lines)),
    }
}

fn once(entries: &[Entry], last: &Last) -> Sifted {
    let mut refused = Vec::new();
    let candidates = alone(entries, last, &mut refused);
    let candidates = respect(candidates, &mut refused);
    let mut candidates = in_order(candidates);
    for round in 0.. {
        let lines: Vec<&str> = candidates.iter().map(|it| it.line.as_str()).collect();
        let faults = match Peers::parse(&lines.join("\n")) {
            Ok(peers) => {
                let lines = candidates.into_iter().map(|it| (it.origin, it.line));
                return Sifted {
                    peers,
                    lines: lines.collect(),
                    refused,
                };
            }
            Err(faults) => faults,
        };
        let mut whys = whys(&candidates, faults, round < MOST_ROUNDS);
        if round >= 2 * MOST_ROUNDS {
            stop_changes(&candidates, &mut whys);
        }
        candidates = remove(candidates, &whys, &mut refused);
    }
    unreachable!("each round removes something, or takes a change back");
}

/// What does not fit to something that is in order itself. The first of all is always among them.
fn certain(faults: Vec<Fault>) -> Vec<Fault> {
    let faulty: HashSet<usize> = faults.iter().map(|fault| fault.line).collect();
    let is_certain = |fault: &Fault| fault.other.is_none_or(|other| !faulty.contains(&other));
    faults.into_iter().filter(is_certain).collect()
}

/// Each entry by itself.
fn alone(entries: &[Entry], last: &Last, refused: &mut Vec<Refused>) -> Vec<Candidate> {
    let entries: BTreeMap<&str, &Entry> = entries
        .iter()
        .map(|entry| (entry.origin.as_str(), entry))
        .collect();
    let mut candidates = Vec::new();
    for (origin, entry) in entries {
        let before = last.get(origin);
        let before = before.and_then(|line| Some((line.clone(), check(line).ok()?)));
        let line = entry.line.clone();
        let checked = line.and_then(|line| check(&line).map(|peer| (line, peer)));
        let now = match checked {
            Ok(now) => Some(now),
            Err(why) => {
                let origin = origin.to_owned();
                refused.push(Refused { origin, why });
                before.clone()
            }
        };
        let Some((line, peer)) = now else {
            continue;
        };
        candidates.push(Candidate {
            is_new: before.is_none(),
            before: before.filter(|(before, _)| *before != line),
            origin: origin.to_owned(),
            since: entry.since,
            line,
            peer,
        });
    }
    candidates
}

fn check(line: &str) -> Result<Peer, String> {
    let reasons = |faults: Vec<Fault>| -> Vec<String> {
        faults.into_iter().map(|fault| fault.reason).collect()
    };
    match Peers::parse(line) {
        Ok(peers) => peers.get(0).cloned().ok_or("it says nothing".to_owned()),
        Err(faults) => Err(reasons(faults).join("; ")),
    }
}

/// What is new and wants something that another one has and keeps is not used, whatever else changes: so nobody who claims
/// what is another one's hinders its changes.
fn respect(candidates: Vec<Candidate>, refused: &mut Vec<Refused>) -> Vec<Candidate> {
    let whys: HashMap<usize, Vec<String>> = {
        let had = candidates.iter().filter(|it| !it.is_new);
        let kept = Kept::of(had.map(|it| {
            let before = it.before.as_ref().map_or(&it.peer, |(_, peer)| peer);
            (it.origin.as_str(), before, &it.peer)
        }));
        let changed = candidates.iter().enumerate();
        let changed = changed.filter(|(_, it)| !it.is_in_use());
        changed
            .filter_map(|(at, it)| Some((at, vec![kept.refuses(&it.origin, &it.peer)?])))
            .collect()
    };
    remove(candidates, &whys, refused)
}

/// Those that are used already come first: later ones have to fit to them. Among the others the one that excludes fewer comes
/// first, and then the older one; nicds of the family that most of them have, if nobody is there yet.
fn in_order(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let (mut known, new): (Vec<_>, Vec<_>) = candidates.into_iter().partition(Candidate::is_in_use);
    let peers: Vec<&Peer> = new.iter().map(|it| &it.peer).collect();
    let excluded = crowd::excluded(&peers);
    let is_v4 = |it: &Peer| it.control.is_ipv4();
    let mostly_v4 = 2 * peers.iter().filter(|it| is_v4(it)).count() >= peers.len();
    let mut new: Vec<_> = new.into_iter().zip(excluded).collect();
    // Of two that exclude each other neither is the guilty one by that.
    new.sort_by_key(|(it, excluded)| (is_v4(&it.peer) != mostly_v4, *excluded.max(&1), it.since));
    known.extend(new.into_iter().map(|(it, _)| it));
    known
}

/// What excludes something that comes before it, by its place.
fn whys(
    candidates: &[Candidate],
    faults: Vec<Fault>,
    only_certain: bool,
) -> HashMap<usize, Vec<String>> {
    let faults = if only_certain {
        certain(faults)
    } else {
        faults
    };
    let origins: Vec<&str> = candidates.iter().map(|it| it.origin.as_str()).collect();
    let mut whys: HashMap<usize, Vec<String>> = HashMap::new();
    for fault in faults {
        let why = name_lines(&fault.reason, &origins);
        whys.entry(fault.line - 1).or_default().push(why);
    }
    whys
}

/// One change after the other was taken back, and there is no end of it.
fn stop_changes(candidates: &[Candidate], whys: &mut HashMap<usize, Vec<String>>) {
    for (place, candidate) in candidates.iter().enumerate() {
        if candidate.before.is_some() {
            let why = || vec!["too many changes exclude each other".to_owned()];
            whys.entry(place).or_insert_with(why);
        }
    }
}

/// It is as it was, and then among those that nobody else gets around; or it goes.
fn remove(
    candidates: Vec<Candidate>,
    whys: &HashMap<usize, Vec<String>>,
    refused: &mut Vec<Refused>,
) -> Vec<Candidate> {
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for (place, candidate) in candidates.into_iter().enumerate() {
        let Some(why) = whys.get(&place) else {
            rest.push(candidate);
            continue;
        };
        refused.push(Refused {
            origin: candidate.origin.clone(),
            why: why.join("; "),
        });
        first.extend(candidate.back());
    }
    first.append(&mut rest);
    first
}

/// Faults name the other entry by its line.
fn name_lines(reason: &str, origins: &[&str]) -> String {
    let mut words = reason.split(' ').peekable();
    let mut named = Vec::new();
    while let Some(word) = words.next() {
        let number = words.peek().filter(|_| word == "line");
        let number = number.and_then(|next| next.parse::<usize>().ok());
        let origin = number.and_then(|number| origins.get(number.checked_sub(1)?));
        match origin {
            Some(origin) => {
                words.next();
                named.push(*origin);
            }
            None => named.push(word),
        }
    }
    named.join(" ")
}

#[cfg(test)]
mod tests;
