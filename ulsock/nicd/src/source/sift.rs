//! Of the entries of a source those that can be used together, by the rules of the peers file. What is wrong with an entry
//! costs that entry alone: whoever may write one of them cannot hold up the others, and cannot take what another one has.
//!
//! An entry that was good before, and is not now, stays as it was. Of two that exclude each other the one stays that was
//! there before: as far as we know, or else by the count of the source, or else the first by name. One that is not used keeps
//! nobody out.

use std::collections::{BTreeMap, HashSet};

use crate::peers::{Fault, Peers};

use super::Entry;

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
}

/// An error: nothing of it can be used.
pub fn sift(entries: Vec<Entry>, last: &Last) -> Result<Sifted, String> {
    if entries.len() > MOST_ENTRIES {
        return Err(format!("it has more than {MOST_ENTRIES} entries"));
    }
    let (mut candidates, mut refused) = alone(entries, last);
    for round in 0.. {
        let lines: Vec<&str> = candidates.iter().map(|it| it.line.as_str()).collect();
        let faults = match Peers::parse(&lines.join("\n")) {
            Ok(peers) => {
                let lines = candidates.into_iter().map(|it| (it.origin, it.line));
                return Ok(Sifted {
                    peers,
                    lines: lines.collect(),
                    refused,
                });
            }
            Err(faults) => faults,
        };
        match round < MOST_ROUNDS {
            true => remove(&mut candidates, &certain(faults), last, &mut refused),
            false => remove(&mut candidates, &faults, &Last::new(), &mut refused),
        }
    }
    unreachable!("each round removes something");
}

/// What does not fit to something that is in order itself. The first of all is always among them.
fn certain(faults: Vec<Fault>) -> Vec<Fault> {
    let faulty: HashSet<usize> = faults.iter().map(|fault| fault.line).collect();
    let is_certain = |fault: &Fault| fault.other.is_none_or(|other| !faulty.contains(&other));
    faults.into_iter().filter(is_certain).collect()
}

/// Each entry by itself. Those that are used already come first: later ones have to fit to them.
fn alone(entries: Vec<Entry>, last: &Last) -> (Vec<Candidate>, Vec<Refused>) {
    let entries = entries.into_iter();
    let entries: BTreeMap<String, _> = entries
        .map(|entry| (entry.origin, (entry.line, entry.since)))
        .collect();
    let (mut known, mut new, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for (origin, (line, since)) in entries {
        let before = last.get(&origin);
        let line = match line.and_then(check) {
            Ok(line) => line,
            Err(why) => {
                let origin = origin.clone();
                refused.push(Refused { origin, why });
                let Some(before) = before else {
                    continue;
                };
                before.clone()
            }
        };
        let list = match before {
            Some(before) if *before == line => &mut known,
            _ => &mut new,
        };
        list.push((since, Candidate { origin, line }));
    }
    new.sort_by_key(|(since, _)| *since);
    known.append(&mut new);
    let known = known.into_iter().map(|(_, candidate)| candidate).collect();
    (known, refused)
}

fn check(line: String) -> Result<String, String> {
    let reasons = |faults: Vec<Fault>| -> Vec<String> {
        faults.into_iter().map(|fault| fault.reason).collect()
    };
    match Peers::parse(&line) {
        Ok(_) => Ok(line),
        Err(faults) => Err(reasons(faults).join("; ")),
    }
}

/// What excludes something that comes before it: it is as it was, or it goes.
fn remove(
    candidates: &mut Vec<Candidate>,
    faults: &[Fault],
    last: &Last,
    refused: &mut Vec<Refused>,
) {
    let origins: Vec<String> = candidates.iter().map(|it| it.origin.clone()).collect();
    let mut whys: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for fault in faults {
        let why = name_lines(&fault.reason, &origins);
        whys.entry(fault.line - 1).or_default().push(why);
    }
    let mut place = 0;
    candidates.retain_mut(|candidate| {
        let why = whys.get(&place);
        place += 1;
        let Some(why) = why else {
            return true;
        };
        refused.push(Refused {
            origin: candidate.origin.clone(),
            why: why.join("; "),
        });
        match last.get(&candidate.origin) {
            Some(before) if *before != candidate.line => {
                candidate.line.clone_from(before);
                true
            }
            _ => false,
        }
    });
}

/// Faults name the other entry by its line.
fn name_lines(reason: &str, origins: &[String]) -> String {
    let mut words = reason.split(' ').peekable();
    let mut named = Vec::new();
    while let Some(word) = words.next() {
        let number = words.peek().filter(|_| word == "line");
        let number = number.and_then(|next| next.parse::<usize>().ok());
        let origin = number.and_then(|number| origins.get(number.checked_sub(1)?));
        match origin {
            Some(origin) => {
                words.next();
                named.push(origin.as_str());
            }
            None => named.push(word),
        }
    }
    named.join(" ")
}

#[cfg(test)]
mod tests;
