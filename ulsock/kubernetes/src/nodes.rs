//! Nodes as the API server tells of them, in JSON: a page of a list, and a line of a watch. Of each node its name counts, and
//! one annotation; a node without that is no peer.

use std::collections::BTreeMap;
use std::time::Duration;

use nicd::source::{Entry, MOST_ENTRIES};
use serde::Deserialize;

const NODES: &str = "/api/v1/nodes";
/// Nodes that are asked for at once.
const PAGE: u32 = 500;
/// How long the server lets a watch go on, and when it is over without a word.
const WATCH: u64 = 290;
pub const WATCH_SILENCE: Duration = Duration::from_secs(WATCH + 30);
/// Of a version, or of what names the next page.
const LONGEST_WORD: usize = 4096;
/// HTTP 410, "Gone": that version is not remembered any more.
const GONE: u16 = 410;

/// The entries, by the names of their nodes.
pub type Known = BTreeMap<String, Entry>;

/// The path of a page, which follows that one.
pub fn list(next: &str) -> String {
    match next {
        "" => format!("{NODES}?limit={PAGE}"),
        next => format!("{NODES}?limit={PAGE}&continue={}", escaped(next)),
    }
}

/// The path of a watch for what comes after that version.
pub fn watch(version: &str) -> String {
    let version = escaped(version);
    format!(
        "{NODES}?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH}&resourceVersion={version}"
    )
}

fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    annotations: Option<Annotations>,
    #[serde(rename = "resourceVersion")]
    version: String,
    #[serde(rename = "continue")]
    next: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "ulsock/peer")]
    peer: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: Metadata,
    items: Option<Vec<Object>>,
    /// Of an error.
    code: u16,
    message: String,
}

#[derive(Debug, Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Object,
}

/// A page of the list.
#[derive(Debug)]
pub struct Page {
    pub entries: Vec<(String, Option<Entry>)>,
    pub version: String,
    pub next: Option<String>,
}

impl Page {
    pub fn parse(text: &[u8]) -> Result<Page, String> {
        let list: Object = serde_json::from_slice(text).map_err(no_list)?;
        // An object without items is some other one: no empty list.
        let items = list.items.ok_or("its answer is no list of nodes")?;
        let next = word(list.metadata.next)?;
        Ok(Page {
            entries: items.into_iter().map(|it| entry(it.metadata)).collect(),
            version: word(list.metadata.version)?,
            next: Some(next).filter(|next| !next.is_empty()),
        })
    }
}

fn no_list(why: serde_json::Error) -> String {
    format!("its answer is no list of nodes: {why}")
}

fn word(word: String) -> Result<String, String> {
    match word.len() <= LONGEST_WORD {
        true => Ok(word),
        false => Err("its answer has a version that is too long".to_owned()),
    }
}

fn entry(node: Metadata) -> (String, Option<Entry>) {
    let line = node.annotations.and_then(|it| it.peer);
    let entry = line.map(|line| Entry::new(node.name.as_bytes(), line.as_bytes()));
    (node.name, entry)
}

/// What has become of a node.
#[derive(Debug, PartialEq)]
pub enum Change {
    /// It is so now, in that version.
    Put(String, Option<Entry>, String),
    Gone(String, String),
    /// Nothing, until that version.
    Bookmark(String),
    /// All have to be listed again.
    Forgotten,
}

pub fn change(line: &[u8]) -> Result<Change, String> {
    let event: Event = serde_json::from_slice(line)
        .map_err(|why| format!("it tells of a change that makes no sense: {why}"))?;
    let object = event.object;
    let version = word(object.metadata.version.clone())?;
    match event.kind.as_str() {
        "ADDED" | "MODIFIED" => {
            let (name, entry) = entry(object.metadata);
            Ok(Change::Put(name, entry, version))
        }
        "DELETED" => Ok(Change::Gone(object.metadata.name, version)),
        "BOOKMARK" => Ok(Change::Bookmark(version)),
        "ERROR" if object.code == GONE => Ok(Change::Forgotten),
        "ERROR" => Err(format!(
            "the watch has ended: {} {}",
            object.code, object.message
        )),
        kind => Err(format!(
            "it tells of a change of a kind that is unknown: {kind}"
        )),
    }
}

pub fn put(known: &mut Known, name: String, entry: Option<Entry>) -> Result<(), String> {
    match entry {
        Some(entry) => drop(known.insert(name, entry)),
        None => drop(known.remove(&name)),
    }
    match known.len() > MOST_ENTRIES {
        true => Err(format!(
            "more than {MOST_ENTRIES} nodes have the annotation"
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages() {
        let page = r#"{"kind":"NodeList","metadata":{"resourceVersion":"7","continue":"a=b"},"items":[
            {"metadata":{"name":"n1","annotations":{"ulsock/peer":"10.0.0.1 keys=x","other":"1"}},"status":{}},
            {"metadata":{"name":"n2"}}, {"metadata":{"name":"n3","annotations":null}}]}"#;
        let page = Page::parse(page.as_bytes()).unwrap();
        assert_eq!(
            (page.version.as_str(), page.next.as_deref()),
            ("7", Some("a=b"))
        );
        let names: Vec<&str> = page.entries.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["n1", "n2", "n3"]);
        assert!(page.entries[0].1.is_some() && page.entries[1].1.is_none());
        assert!(list("a=b&c").ends_with("continue=a%3Db%26c"));
        for bad in [
            "",
            "{}",
            "[]",
            r#"{"items":7}"#,
            r#"{"kind":"Status","code":403}"#,
        ] {
            assert!(Page::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        let empty = Page::parse(br#"{"metadata":{"resourceVersion":"8"},"items":[]}"#).unwrap();
        assert!(empty.entries.is_empty());
    }

    #[test]
    fn changes() {
        let event = |kind: &str, object: &str| {
            change(format!(r#"{{"type":"{kind}","object":{object}}}"#).as_bytes())
        };
        let node = r#"{"metadata":{"name":"n","resourceVersion":"9"}}"#;
        let put = Change::Put("n".to_owned(), None, "9".to_owned());
        assert_eq!(event("MODIFIED", node), Ok(put));
        assert_eq!(
            event("DELETED", node),
            Ok(Change::Gone("n".to_owned(), "9".to_owned()))
        );
        assert_eq!(
            event("BOOKMARK", node),
            Ok(Change::Bookmark("9".to_owned()))
        );
        assert_eq!(event("ERROR", r#"{"code":410}"#), Ok(Change::Forgotten));
        assert!(event("ERROR", r#"{"code":500,"message":"x"}"#).is_err());
        assert!(event("NEW", node).is_err());
        assert!(change(b"nonsense").is_err());
    }
}
