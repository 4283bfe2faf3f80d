//! How many others an entry excludes: one that claims what several have comes behind them.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use rendezvous::config::Cidr;

use crate::peers::Peer;

/// More are not counted: entries may all exclude each other.
const MOST_COUNTED: usize = 64;

type Others = Vec<HashSet<usize>>;

/// For each of them.
pub fn excluded(peers: &[&Peer]) -> Vec<usize> {
    let all = || peers.iter().enumerate();
    let mut others: Others = vec![HashSet::new(); peers.len()];
    same(all().map(|(at, it)| (it.control.ip(), at)), &mut others);
    let keys = all().flat_map(|(at, it)| it.keys.iter().map(move |key| (*key, at)));
    same(keys, &mut others);
    let names = all().filter_map(|(at, it)| Some((it.name.as_deref()?, at)));
    same(names, &mut others);
    let nets = all().flat_map(|(at, it)| it.nets.iter().map(move |net| (*net, at)));
    overlapping(nets.collect(), &mut others);
    others.iter().map(HashSet::len).collect()
}

fn note(others: &mut Others, of: usize, other: usize) {
    if of != other && others[of].len() < MOST_COUNTED {
        others[of].insert(other);
    }
}

fn same<T: Eq + Hash>(items: impl Iterator<Item = (T, usize)>, others: &mut Others) {
    let mut groups: HashMap<T, Vec<usize>> = HashMap::new();
    for (item, at) in items {
        groups.entry(item).or_default().push(at);
    }
    for group in groups.values().filter(|group| group.len() > 1) {
        for at in group {
            // One of them is itself.
            for other in group.iter().take(MOST_COUNTED + 1) {
                note(others, *at, *other);
            }
        }
    }
}

fn overlapping(mut nets: Vec<(Cidr, usize)>, others: &mut Others) {
    nets.sort_by_key(|(net, at)| (net.base(), net.bits(), *at));
    let mut around: Vec<(Cidr, usize)> = Vec::new();
    for (net, at) in nets {
        while around.last().is_some_and(|(it, _)| !it.overlaps(&net)) {
            around.pop();
        }
        // Those behind have been counted in so many already.
        for (_, outer) in around.iter().take(MOST_COUNTED) {
            note(others, at, *outer);
            note(others, *outer, at);
        }
        around.push((net, at));
    }
}
