//! The top-level modules of a crate import each other without a cycle.

use std::collections::{BTreeMap, BTreeSet};

use crate::resolve::Import;
use crate::rules::{Rule, Violation};

/// Who imports from whom.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

pub fn check(imports: &[Import]) -> Vec<Violation> {
    let mut graph = Graph::new();
    for import in imports {
        graph
            .entry(import.from.clone())
            .or_default()
            .insert(import.to.clone());
    }
    let mut found = Vec::new();
    for circle in circles(&graph) {
        let names: Vec<&str> = circle.iter().map(String::as_str).collect();
        for import in imports {
            if circle.contains(&import.from) && circle.contains(&import.to) {
                let Import { from, to, path, .. } = import;
                found.push(Violation {
                    rule: Rule::Cycle,
                    file: import.file.clone(),
                    line: import.line,
                    text: format!(
                        "{path}: {from} imports from {to} in a cycle of modules: {}",
                        names.join(", ")
                    ),
                });
            }
        }
    }
    found
}

/// The sets of nodes that all reach each other.
pub fn circles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<&String, BTreeSet<String>> = graph
        .keys()
        .map(|node| (node, reached(graph, node)))
        .collect();
    let mut circles: Vec<BTreeSet<String>> = Vec::new();
    for (node, reached) in &reach {
        let mutual = |other: &&String| reach.get(other).is_some_and(|back| back.contains(*node));
        let circle: BTreeSet<String> = reached.iter().filter(mutual).cloned().collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

fn reached(graph: &Graph, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from.to_owned()];
    while let Some(node) = next.pop() {
        for other in graph.get(&node).into_iter().flatten() {
            if reached.insert(other.clone()) {
                next.push(other.clone());
            }
        }
    }
    reached
}
