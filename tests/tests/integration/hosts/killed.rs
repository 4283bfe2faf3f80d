//! A program is killed in the middle of a fail-over: the other host's reads all that it had sent, and then the end, as
//! from kernel TCP, for the daemon goes on where it was ([F31]).

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::thread::sleep;
use std::time::Duration;

use serde::Deserialize;
use tests::ends::kernel_only;
use tests::hosts::Hosts;
use tests::program::Running;
use tests::rng::Rng;

/// Where it dies; see `ULSOCK_DIE`.
const STEPS: [&str; 5] = ["frozen", "noted", "written", "midway", "resent"];
/// What one send can have been in the middle of (see `src/bin/killer.rs`).
const PIECE: u64 = 64 * 1024;

/// How far the survivor has read, and how it ended.
#[derive(Debug, Deserialize)]
struct End {
    how: String,
    bytes: u64,
}

#[derive(Debug, Deserialize)]
struct Ending {
    received: End,
}

/// The two programs; the host of the one that will be killed is `victim`.
fn start(hosts: &Hosts, victim: usize, step: Option<&str>) -> [Running; 2] {
    let go = hosts.folder().join("go");
    let program = |host: usize, role: &str| {
        let log = hosts.folder().join(format!("killer-{host}"));
        let plan = if host == victim {
            "send=1"
        } else {
            "receive=1"
        };
        let program = hosts.own(host, "killer").args(role).args(plan);
        let program = program.args(&format!("port=7000 seed=1 go={}", go.display()));
        let program = program.args(&format!("log={}", log.display()));
        match step.filter(|_| host == victim) {
            Some(step) => program.env("ULSOCK_DIE", step),
            None => program,
        }
    };
    let server = program(0, "listen host=::").start().listening(7000);
    let address = format!("host={}", hosts.host(0).address());
    let client = program(1, "connect").args(&address).start();
    [server, client]
}

/// How much the victim knows to be sent.
fn sent(hosts: &Hosts, victim: usize) -> u64 {
    let log = fs::read(hosts.folder().join(format!("killer-{victim}")));
    let bytes = log.ok().and_then(|log| log.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}

/// The link fails, and both go back to the kernel. The victim gets as far as that, or lives so long.
fn dies(victim: usize, step: Option<&str>, after: Duration) {
    let hosts = Hosts::two();
    let mut programs = start(&hosts, victim, step);
    hosts.wait_until_served(1);
    fs::write(hosts.folder().join("go"), "").expect("a file");
    programs[victim].until("it has sent something", |_| sent(&hosts, victim) > PIECE);
    hosts.kill_nicd(1 - victim);
    let [server, client] = programs;
    let (killed, survivor) = match victim {
        0 => (server, client),
        _ => (client, server),
    };
    let ended = match step.filter(|_| !kernel_only()) {
        Some(_) => killed.wait(),
        None => {
            sleep(after);
            killed.stop(libc::SIGKILL)
        }
    };
    assert_eq!(ended.status.signal(), Some(libc::SIGKILL), "{step:?}");
    let output = survivor.succeed();
    let ending: Ending =
        serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"));
    let (sent, End { how, bytes }) = (sent(&hosts, victim), ending.received);
    let case = format!("{step:?} {after:?}: {bytes} bytes of {sent}");
    println!("{case}, {how}");
    assert_eq!(how, "eof", "{case}");
    assert!((sent..=sent + PIECE).contains(&bytes), "{case}");
}

#[test]
fn who_has_connected() {
    let dies = |step: &&str| dies(1, Some(step), Duration::ZERO);
    STEPS.iter().for_each(dies);
}

#[test]
fn who_has_accepted() {
    let dies = |step: &&str| dies(0, Some(step), Duration::ZERO);
    STEPS.iter().for_each(dies);
}

/// Most fail-overs are over after the deadline, half a second.
#[test]
fn at_any_moment() {
    let mut rng = Rng::new(1, 1);
    for round in 0..12 {
        let after = Duration::from_micros(rng.below(600_000) as u64);
        dies(round % 2, None, after);
    }
}
