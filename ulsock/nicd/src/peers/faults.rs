//! What is wrong between the lines of a peers file, each fine by itself: every address lies behind one
//! nicd, every nicd has its own address, every key and name is one host's.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;

use rendezvous::config::Cidr;

use super::{Fault, Peer};

/// All blocks by address, the larger of two with one base first.
pub(super) fn sorted_nets(list: &[Peer]) -> Vec<(Cidr, usize)> {
    let mut nets: Vec<(Cidr, usize)> = list
        .iter()
        .flat_map(|peer| peer.nets.iter().map(|net| (*net, peer.index)))
        .collect();
    nets.sort_by_key(|(net, peer)| (net.base(), net.bits(), *peer));
    nets
}

pub(super) fn between(list: &[Peer], nets: &[(Cidr, usize)]) -> Vec<Fault> {
    let addresses = list.iter().map(|peer| (peer.line, peer.control.ip()));
    let keys = list
        .iter()
        .flat_map(|peer| peer.keys.iter().map(|key| (peer.line, *key)));
    let names = list
        .iter()
        .flat_map(|peer| peer.name.iter().map(|name| (peer.line, name)));
    let mut faults = overlaps(list, nets);
    faults.extend(families(list));
    faults.extend(twice(addresses, "address"));
    faults.extend(twice(keys, "key"));
    faults.extend(twice(names, "name"));
    faults
}

/// Blocks lie within each other or apart. So, by address, whatever overlaps with an earlier one overlaps with
/// the last that nothing before it contained.
fn overlaps(list: &[Peer], nets: &[(Cidr, usize)]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut outer: Option<&(Cidr, usize)> = None;
    for inner in nets {
        match outer {
            Some(outer) if outer.0.overlaps(&inner.0) => faults.push(overlap(list, outer, inner)),
            _ => outer = Some(inner),
        }
    }
    faults
}

fn overlap(list: &[Peer], a: &(Cidr, usize), b: &(Cidr, usize)) -> Fault {
    let (first, later) = match a.1 <= b.1 {
        true => (a, b),
        false => (b, a),
    };
    Fault {
        line: list[later.1].line,
        other: Some(list[first.1].line),
        reason: format!(
            "{} overlaps with {} of line {}",
            later.0, first.0, list[first.1].line
        ),
    }
}

/// A nicd calls from its own address, so that it can call only those of its family.
fn families(list: &[Peer]) -> Vec<Fault> {
    let apart = |first: &Peer, peer: &Peer| first.control.is_ipv4() != peer.control.is_ipv4();
    let Some(first) = list.first() else {
        return Vec::new();
    };
    list.iter()
        .filter(|peer| apart(first, peer))
        .map(|peer| Fault {
            line: peer.line,
            other: Some(first.line),
            reason: format!(
                "{}: nicds talk by IPv4 or by IPv6, and line {} has {}",
                peer.control.ip(),
                first.line,
                first.control.ip()
            ),
        })
        .collect()
}

fn twice<T: Eq + Hash + Display>(
    items: impl Iterator<Item = (usize, T)>,
    what: &str,
) -> Vec<Fault> {
    let mut seen: HashMap<T, usize> = HashMap::new();
    let mut faults = Vec::new();
    for (line, item) in items {
        match seen.get(&item) {
            Some(before) => faults.push(Fault {
                line,
                other: Some(*before),
                reason: format!("the {what} {item} stands in line {before} already"),
            }),
            None => {
                seen.insert(item, line);
            }
        }
    }
    faults
}
