//! `ulsock nicd join` and `leave` where the hosts are in etcd.

use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::Duration;

use ::etcd::{Held, Registry};
use ::nicd::peers::Peers;
use ::nicd::signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::access::EtcdAccess;
use super::etcd;
use super::join::{JoinOptions, LeaveOptions, Own};
use crate::failure::{Failure, Outcome};

/// Between two tries, while etcd is away.
const AGAIN: Duration = Duration::from_secs(1);

fn open(access: &EtcdAccess, urls: &[String], prefix: &str) -> Result<Registry, Failure> {
    let registry = Registry::new(&etcd::settings(access, urls)?, prefix);
    registry.map_err(|why| Failure::setup(format!("--peers: {why}")))
}

fn away(why: String) -> Failure {
    Failure::work(format!(
        "etcd: {why} (are its members up, and may this user write there?)"
    ))
}

fn lists(held: &Held, key: &str) -> bool {
    let keys = Peers::parse(&held.line).ok();
    let keys = keys.and_then(|peers| Some(peers.get(0)?.keys.clone()));
    keys.is_some_and(|keys| keys.iter().any(|it| it.to_string() == key))
}

fn of_another(name: &str, held: &Held) -> Failure {
    let line = &held.line;
    Failure::work(format!(
        "{name} is another host there, by its key ({line}): choose another --name, or --replace it"
    ))
}

pub fn join(options: &JoinOptions, own: &Own, urls: &[String], prefix: &str) -> Outcome {
    let registry = open(options.host.peers.access(), urls, prefix)?;
    let lease = options.lease.map(Duration::from_secs);
    let granted = lease.map(|ttl| registry.grant(ttl)).transpose();
    let granted = granted.map_err(away)?;
    put(&registry, own, granted, options.replace)?;
    crate::print::all(&format!("{}: {}\n", own.name, own.line))?;
    match (lease, granted) {
        (Some(ttl), Some(granted)) => hold(&registry, own, ttl, granted),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn put(registry: &Registry, own: &Own, lease: Option<i64>, replace: bool) -> Result<(), Failure> {
    let old = registry.get(&own.name).map_err(away)?;
    if let Some(old) = &old {
        if !replace && !lists(old, &own.key) {
            return Err(of_another(&own.name, old));
        }
        if old.line == own.line && old.lease == lease.unwrap_or_default() {
            return Ok(());
        }
    }
    let done = registry.put(
        &own.name,
        &own.line,
        old.as_ref(),
        lease.unwrap_or_default(),
    );
    match done.map_err(away)? {
        true => Ok(()),
        false => Err(Failure::work(format!(
            "{}: somebody else has changed it at the same moment: try again",
            own.name
        ))),
    }
}

/// Keeps the entry alive until a signal comes, and takes it out then.
fn hold(registry: &Registry, own: &Own, ttl: Duration, mut lease: i64) -> Outcome {
    let signals = signals::open().map_err(|why| Failure::work(format!("no signals: {why}")))?;
    let mut pause = ttl / 3;
    while !waits_in_vain(&signals, pause) {
        pause = match renew(registry, own, ttl, &mut lease) {
            Ok(()) => ttl / 3,
            Err(why) => {
                eprintln!("ulsock: {why}; tried again");
                AGAIN
            }
        };
    }
    take_out(registry, &own.name, &own.key, false)
}

fn renew(registry: &Registry, own: &Own, ttl: Duration, lease: &mut i64) -> Result<(), Failure> {
    if registry.keep_alive(*lease).map_err(away)? {
        return Ok(());
    }
    *lease = registry.grant(ttl).map_err(away)?;
    put(registry, own, Some(*lease), false)
}

/// Whether a signal has come to end us.
fn waits_in_vain(signals: &OwnedFd, pause: Duration) -> bool {
    let pause = Timespec::try_from(pause).ok();
    let _ = poll(&mut [PollFd::new(signals, PollFlags::IN)], pause.as_ref());
    signals::take(signals).stop
}

pub fn leave(
    options: &LeaveOptions,
    name: &str,
    key: &str,
    urls: &[String],
    prefix: &str,
) -> Outcome {
    let registry = open(options.host.peers.access(), urls, prefix)?;
    take_out(&registry, name, key, options.replace)
}

fn take_out(registry: &Registry, name: &str, key: &str, replace: bool) -> Outcome {
    let Some(held) = registry.get(name).map_err(away)? else {
        println!("{name}: is not there");
        return Ok(ExitCode::SUCCESS);
    };
    if !replace && !lists(&held, key) {
        return Err(of_another(name, &held));
    }
    match registry.remove(name, &held).map_err(away)? {
        true => {
            println!("{name}: taken out");
            Ok(ExitCode::SUCCESS)
        }
        false => Err(Failure::work(format!(
            "{name}: somebody else has changed it at the same moment: try again"
        ))),
    }
}
