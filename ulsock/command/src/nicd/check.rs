//! `ulsock nicd check`: reads the peers as nicd would, and says what it would do with them. All that is wrong is told at
//! once, a line each.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ::nicd::identity::{Identity, KEY_FILE};
use ::nicd::peers::{BadPeers, Peer, Peers, is_here};
use ::nicd::source::{Last, PeerSource, sift};
use clap::Args;
use os::plain::plain;
use tabled::builder::Builder;
use tabled::settings::Style;

use super::peers::PeersOptions;
use super::place::Place;
use crate::failure::{Failure, Outcome};

const HEADINGS: [&str; 4] = ["NAME", "ITS NICD", "SERVES", "KEYS"];

/// For that of a source.
const ANSWER: Duration = Duration::from_secs(10);

#[derive(Args)]
pub struct CheckOptions {
    #[command(flatten)]
    peers: PeersOptions,
    /// The file of this host's private key [default: /etc/ulsock/nicd.key, if it can be read]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

pub fn run(options: &CheckOptions) -> Outcome {
    match options.peers.source()? {
        Some(source) => check_source(options, source),
        None => {
            let path = options.peers.path();
            let peers = Peers::load(path).map_err(|why| refusal(path, &why))?;
            let line = |peer: &Peer| peer.line.to_string();
            crate::print::all(&format!("{}\n", table(&peers, "LINE", line)))?;
            crate::print::all(&format!("{}\n", place(options, &peers)?))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// As a nicd that has just started, and has saved nothing.
fn check_source(options: &CheckOptions, mut source: Box<dyn PeerSource>) -> Outcome {
    let answer = source.read(ANSWER);
    let sifted = answer.and_then(|entries| sift(entries, &Last::new()));
    let sifted = sifted.map_err(|why| {
        let (title, cure) = (source.title(), source.cure());
        Failure::work(format!("{title}: {why} ({cure})"))
    })?;
    let origins: HashMap<SocketAddr, &String> = sifted.lines.iter().filter_map(control).collect();
    let origin = |peer: &Peer| {
        let origin = origins.get(&peer.control);
        origin.map_or_else(String::new, |it| (*it).clone())
    };
    crate::print::all(&format!("{}\n", table(&sifted.peers, "ENTRY", origin)))?;
    crate::print::all(&format!("{}\n", place(options, &sifted.peers)?))?;
    let refused = sifted.refused.iter();
    let refused = refused.map(|it| plain(format!("{}: {}", it.origin, it.why).as_bytes()));
    match refused.collect::<Vec<String>>() {
        none if none.is_empty() => Ok(ExitCode::SUCCESS),
        refused => Err(Failure::setup(refused.join("\nulsock: "))),
    }
}

/// Where the nicd of an entry listens.
fn control<'l>((origin, line): (&'l String, &String)) -> Option<(SocketAddr, &'l String)> {
    let peers = Peers::parse(line).ok()?;
    Some((peers.get(0)?.control, origin))
}

/// As nicd says it, too.
pub fn refusal(path: &Path, why: &BadPeers) -> Failure {
    let path = path.display();
    let text = match why {
        BadPeers::Untrusted(why) => format!("{path} {why}"),
        BadPeers::Faults(faults) => {
            let lines: Vec<String> = faults
                .iter()
                .map(|fault| format!("{path} {fault}"))
                .collect();
            lines.join("\nulsock: ")
        }
    };
    Failure::setup(text)
}

fn table(peers: &Peers, heading: &str, place: impl Fn(&Peer) -> String) -> String {
    let mut builder = Builder::default();
    builder.push_record([heading].into_iter().chain(HEADINGS));
    for peer in peers.iter() {
        builder.push_record([
            place(peer),
            peer.name.clone().unwrap_or_default(),
            peer.control.to_string(),
            lines(&peer.nets),
            lines(&peer.keys),
        ]);
    }
    builder.build().with(Style::blank()).to_string()
}

fn lines(items: &[impl ToString]) -> String {
    let items: Vec<String> = items.iter().map(|item| item.to_string()).collect();
    items.join("\n")
}

/// Where this host stands in the file. Without a key, unless one was named, the file alone is checked.
fn place(options: &CheckOptions, peers: &Peers) -> Result<String, Failure> {
    let path = options
        .key
        .clone()
        .unwrap_or_else(|| PathBuf::from(KEY_FILE));
    let identity = match (Identity::load(&path), &options.key) {
        (Ok(identity), _) => identity,
        (Err(why), None) => return Ok(format!("This host is not looked for: {KEY_FILE} {why}.")),
        (Err(why), Some(_)) => return Err(Failure::setup(format!("{} {why}", path.display()))),
    };
    let has_lines = matches!(options.peers.place()?, Place::File(_));
    let public = identity.public();
    let own = peers.own(&public, is_here).map_err(|why| {
        Failure::setup(format!(
            "{}: {why} ({public})",
            options.peers.path().display()
        ))
    })?;
    Ok(peers
        .get(own)
        .map_or_else(String::new, |own| here(own, peers.len(), has_lines)))
}

fn here(own: &Peer, hosts: usize, has_lines: bool) -> String {
    let own_name = match (has_lines, &own.name) {
        (true, _) => format!("line {}", own.line),
        (false, Some(name)) => name.clone(),
        (false, None) => "there".to_owned(),
    };
    format!(
        "This host is {}: its nicd listens on {} and knows {} other host{}.",
        own_name,
        own.control,
        hosts - 1,
        if hosts == 2 { "" } else { "s" }
    )
}
