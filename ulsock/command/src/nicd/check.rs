//! `ulsock nicd check`: reads the peers file as nicd would, and says what it would do with it. All that is
//! wrong is told at once, a line each.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::nicd::identity::{Identity, KEY_FILE};
use ::nicd::peers::{BadPeers, PEERS_FILE, Peer, Peers, is_here};
use clap::Args;
use tabled::builder::Builder;
use tabled::settings::Style;

use crate::failure::{Failure, Outcome};

const HEADINGS: [&str; 5] = ["LINE", "NAME", "ITS NICD", "SERVES", "KEYS"];

#[derive(Args)]
pub struct CheckOptions {
    /// The peers file
    #[arg(long, value_name = "FILE", default_value = PEERS_FILE)]
    peers: PathBuf,
    /// The file of this host's private key [default: /etc/ulsock/nicd.key, if it can be read]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

pub fn run(options: &CheckOptions) -> Outcome {
    let peers = Peers::load(&options.peers).map_err(|why| refusal(&options.peers, &why))?;
    println!("{}", table(&peers));
    println!("{}", place(options, &peers)?);
    Ok(ExitCode::SUCCESS)
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

fn table(peers: &Peers) -> String {
    let mut builder = Builder::default();
    builder.push_record(HEADINGS);
    for peer in peers.iter() {
        builder.push_record([
            peer.line.to_string(),
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
    let public = identity.public();
    let own = peers
        .own(&public, is_here)
        .map_err(|why| Failure::setup(format!("{}: {why} ({public})", options.peers.display())))?;
    Ok(peers
        .get(own)
        .map_or_else(String::new, |own| here(own, peers.len())))
}

fn here(own: &Peer, hosts: usize) -> String {
    format!(
        "This host is line {}: its nicd listens on {} and knows {} other host{}.",
        own.line,
        own.control,
        hosts - 1,
        if hosts == 2 { "" } else { "s" }
    )
}
