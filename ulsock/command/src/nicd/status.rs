//! `ulsock nicd status`: asks the daemon that runs here how things are.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::time::Duration;

use ::nicd::source::SourceStatus;
use ::nicd::{self, Status, StoreStatus};
use clap::Args;

use crate::failure::{Failure, Outcome};
use crate::preload;

#[derive(Args)]
pub struct StatusOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(options: &StatusOptions) -> Outcome {
    let config = preload::configuration()?;
    let status = nicd::ask(&config.run_dir).map_err(|why| match why.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => Failure::work(format!(
            "no nicd runs in this network namespace ({}): start it with `ulsock nicd`",
            config.run_dir.display()
        )),
        _ => Failure::work(format!("nicd does not answer: {why}")),
    })?;
    let shown = if options.json {
        let text = serde_json::to_string(&status);
        text.map_err(|why| Failure::work(why.to_string()))? + "\n"
    } else {
        text(&status)
    };
    // Whoever read us may have seen enough.
    let _ = std::io::stdout().write_all(shown.as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// Names of interfaces and of hosts can have anything in them.
fn plain(text: &str) -> String {
    os::plain::plain(text.as_bytes())
}

fn text(status: &Status) -> String {
    let mut lines = vec![format!(
        "nicd {} at {}, serving {} programs; in containers {}, with {} connections introduced",
        status.pid,
        plain(&status.address),
        status.programs,
        status.guests,
        status.introduced
    )];
    lines.extend(source(&status.source));
    for peer in &status.peers {
        let state = match (peer.in_touch, peer.link_up) {
            (true, true) => format!(
                "up on {}, {:.0} us",
                plain(&peer.interface),
                peer.round_trip
            ),
            (true, false) if !peer.why.is_empty() => format!("no link: {}", plain(&peer.why)),
            (true, false) if peer.at_rest => "at rest, no connection needs the link".to_owned(),
            (true, false) => "link down".to_owned(),
            (false, _) => "its nicd is not in touch".to_owned(),
        };
        lines.push(format!(
            "  {} {}: {state}; connections: {} by the NIC, {} ready, {} shown; packets: {} sent, {} received, {} lost",
            plain(&peer.address), plain(&peer.name), peer.served, peer.claimed, peer.shown,
            peer.packets_sent, peer.packets_received, peer.packets_lost
        ));
    }
    for interface in &status.interfaces {
        lines.push(format!(
            "  {}: port {} {}; UDP checksums computed by {}, checked by {}; {} frames sent, {} received, {} of strangers{}",
            plain(&interface.name),
            plain(&interface.port),
            if interface.open { "open" } else { "closed" },
            plain(&interface.checksums_computed_by),
            plain(&interface.checksums_checked_by),
            interface.frames_sent,
            interface.frames_received,
            interface.strangers,
            match interface.trouble.as_str() {
                "" => String::new(),
                trouble => format!("; trouble: {}", plain(trouble)),
            }
        ));
    }
    for engine in &status.engines {
        lines.push(format!(
            "  pid {}: an engine of its own, port {}; UDP checksums computed by {}, checked by {}; UDP port {}, {} routes",
            engine.pid,
            plain(&engine.port),
            plain(&engine.checksums_computed_by),
            plain(&engine.checksums_checked_by),
            engine.udp,
            engine.routes
        ));
    }
    lines.extend(own_engines(status));
    lines.extend(status.store.as_ref().map(store));
    lines.join("\n") + "\n"
}

/// Where the peers come from, and what is wrong with that.
fn source(source: &SourceStatus) -> Vec<String> {
    let age = Duration::from_secs(source.age as u64);
    let state = match (source.in_touch, source.why.is_empty()) {
        (true, _) if age.is_zero() => "in touch".to_owned(),
        (true, _) => format!("read {age:?} ago"),
        (false, _) => format!("as of {age:?} ago"),
    };
    let title = plain(&source.title);
    let mut lines = vec![format!(
        "  peers from {title}: {state}; {} hosts",
        source.used
    )];
    if !source.why.is_empty() {
        let (why, cure) = (plain(&source.why), plain(&source.cure));
        lines.push(format!("    {why}: {cure}"));
    }
    lines.extend(
        source
            .shown
            .iter()
            .map(|it| format!("    not used: {}", plain(it))),
    );
    let more = source.refused.saturating_sub(source.shown.len());
    if more > 0 {
        lines.push(format!("    not used: {more} more"));
    }
    lines
}

fn store(store: &StoreStatus) -> String {
    let touch = match (store.in_touch, store.why.as_str()) {
        (true, _) => "in touch".to_owned(),
        (false, "") => "not in touch yet".to_owned(),
        (false, why) => format!("out of reach: {}", plain(why)),
    };
    format!(
        "  names in {}: {touch}; {} of this host, {} of others; {} times something was ignored there",
        plain(&store.title),
        store.ours,
        store.theirs,
        store.ignored
    )
}

/// Of one alone all is said already.
fn own_engines(status: &Status) -> Vec<String> {
    let all = status.own_engines.iter().enumerate();
    all.filter(|_| status.own_engines.len() > 1)
        .map(|(number, engine)| match engine.runs {
            true => format!(
                "  engine {number}: {} connections, links to {} hosts; {} frames sent, {} received",
                engine.connections, engine.links, engine.frames_sent, engine.frames_received
            ),
            false => format!("  engine {number}: has ended"),
        })
        .collect()
}
