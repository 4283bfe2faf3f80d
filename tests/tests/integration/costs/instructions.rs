//! Instructions of the calls that find their ring ready or stay on the kernel, and of a packet over the link, counted by
//! callgrind and kept in `benches/instructions.txt` and `benches/link.txt`: a change shows as a
//! difference of those files. `BLESS=1` rewrites them.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::ends::{Ends, Side, kernel_only};
use tests::place::{Place, Rings};
use tests::program::built;

const CALLS: [&str; 13] = [
    "send",
    "recv",
    "poll",
    "epoll_wait",
    "write",
    "push",
    "pull",
    "kept_send",
    "kept_recv",
    "kept_epoll_wait",
    "kept_epoll_ctl",
    "awake_recv",
    "awake_epoll_wait",
];
const COUNT: u64 = 100;
/// A larger change must be looked at.
const PERCENT: f64 = 3.0;
const HEADER: &str = "\
# Instructions of one call through libulsock_preload.so, libc's and the hook's included, the kernel's not.
# send, recv (64 B), poll and epoll_wait (one member) find their ring ready; write (64 B) is to a file.
# push and pull (64 B) are the bare ring's: what of a send and a recv is its own work.
# kept_ is on a connection that stays on the kernel, and whose waits are not awake: what our being there costs it.
# awake_ is the same where every wait looks first, whatever the clock says, and finds something.
# Counted by callgrind (benches/src/bin/counted.rs). To accept a change: BLESS=1 tests/run instructions
";

/// Steps of a packet, the function that is counted, and what of `carried` calls it.
const STEPS: [(&str, &str, &str); 25] = [
    ("link_send", "link_send", "link"),
    ("link_receive", "link_receive", "link"),
    ("link_ack", "link_ack", "link"),
    ("v4_nic_send", "link_send", "v4_nic"),
    ("v4_nic_receive", "link_receive", "v4_nic"),
    ("v4_own_receive", "link_receive", "v4_own"),
    ("v6_send", "link_send", "v6"),
    ("v6_receive", "link_receive", "v6"),
    ("v6_nic_send", "link_send", "v6_nic"),
    ("v6_nic_receive", "link_receive", "v6_nic"),
    ("tcp_send", "tcp_send", "tcp"),
    ("tcp_receive", "tcp_receive", "tcp"),
    ("tcp_ack", "tcp_ack", "tcp"),
    ("engine_send", "engine_send", "engine"),
    ("engine_receive", "engine_receive", "engine"),
    ("engine_owe", "engine_owe", "engine"),
    ("engine_ack", "engine_ack", "engine"),
    ("engine_idle", "engine_idle", "engine"),
    ("glance_send", "glance_send", "glance"),
    ("glance_receive", "glance_receive", "glance"),
    ("crc_copy", "crc_copy", "crc"),
    ("copy", "copy", "crc"),
    ("crc_head", "crc_head", "crc"),
    ("crc_ack", "crc_ack", "crc"),
    ("ip_sum", "ip_sum", "crc"),
];
const LINK_HEADER: &str = "\
# Instructions of one packet of 1 KiB, from frame to frame: sent, received in order, its acknowledgement
# heard. link is ours, with every checksum computed: CRC32C and that of the IPv4 header. tcp is smoltcp's,
# on a device that takes all checksums off it. What the CRC of the body costs is crc_copy less copy; crc_head
# is that of DATA's header, crc_ack that of an ACK, ip_sum the check of the IPv4 header.
# link is over IPv4, without UDP checksums; v6 over IPv6, where they are computed and checked by us. With _nic both are
# left to the NICs; with _own the sender's NIC has computed, and we check.
# engine is a whole poll of an engine with one endpoint, from ring to frame or from frame to ring: a message of
# 64 B sent and received where each is the answer to the one before (so that it acknowledges that); the ACK of
# one that nobody answers, sent and heard; a poll in which nothing happens. glance is the first two where who
# waits polls by itself: it has the bytes first, and the poll of its answer does the rest.
# Counted by callgrind (benches/src/bin/carried.rs). To accept a change: BLESS=1 tests/run instructions
";

fn table(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../benches")
        .join(name)
}

fn count(call: &str) -> u64 {
    let place = Place::new(Ends::Both);
    let (place, call) = match call.split_once('_') {
        Some(("kept", _)) => (place.with("ULSOCK_AWAKE", "off"), call.to_owned()),
        // The automatic choice depends on how fast the machine is.
        Some(("awake", name)) => (place.with("ULSOCK_SPIN_US", "1"), format!("kept_{name}")),
        _ => (place.eager(), call.to_owned()),
    };
    let name = call.strip_prefix("kept_").unwrap_or(&call);
    let valgrind = place.program(Side::Client, "valgrind");
    let valgrind = valgrind
        .args("--tool=callgrind --callgrind-out-file=/dev/null")
        .arg(format!("--toggle-collect=counted_{name}"))
        .arg(built("counted"));
    let finished = valgrind.arg(&call).arg(COUNT.to_string()).start().wait();
    assert!(finished.status.success(), "{call}: {}", finished.errors);
    place.check(Rings::Any);
    collected(&finished.errors)
}

/// What callgrind says, for each time.
fn collected(report: &str) -> u64 {
    let mut lines = report.lines();
    let collected = lines.find_map(|line| line.split_once("Collected :"));
    let (_, total) = collected.unwrap_or_else(|| panic!("{report}"));
    let total: u64 = total.trim().parse().expect("a number");
    (total + COUNT / 2) / COUNT
}

/// A step of a packet needs no sockets.
fn count_step(function: &str, what: &str) -> u64 {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect=counted_{function}"))
        .arg(built("carried"))
        .args([what, &COUNT.to_string()]);
    let output = valgrind.output().expect("valgrind");
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{function}: {report}");
    collected(&report)
}

/// Calls and their counts as the file has them.
fn known(text: &str) -> Vec<(&str, u64)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (call, count) = line.split_once(' ')?;
            Some((call, count.trim().parse().ok()?))
        })
        .collect()
}

/// Holds counts against the table, or writes it.
fn check(name: &str, header: &str, counts: &[(&str, u64)]) {
    if std::env::var_os("BLESS").is_some() {
        let mut text = header.to_owned();
        for (call, count) in counts {
            writeln!(text, "{call:14} {count:6}").expect("a string");
        }
        fs::write(table(name), text).expect("the table");
        return;
    }
    let text = fs::read_to_string(table(name)).expect("the table");
    let known = known(&text);
    let mut changed = String::new();
    for &(call, count) in counts {
        let before = known.iter().find(|(name, _)| *name == call);
        let before = before.map_or(0, |(_, count)| *count);
        let percent = (count as f64 / before as f64 - 1.0) * 100.0;
        eprintln!("{call:14} {before:6} -> {count:6}  {percent:+.1} %");
        if percent.is_nan() || percent.abs() > PERCENT {
            writeln!(changed, "-{call:14} {before:6}\n+{call:14} {count:6}").expect("a string");
        }
    }
    assert!(
        changed.is_empty(),
        "instructions have changed; if that is meant, BLESS=1 tests/run instructions\n{changed}"
    );
}

#[test]
fn of_ready_calls() {
    if kernel_only() {
        return;
    }
    let counts = CALLS.map(|call| (call, count(call)));
    check("instructions.txt", HEADER, &counts);
}

/// What of each step is not checksum, beside smoltcp's.
fn ratios(counts: &[(&str, u64)]) -> String {
    let count = |name: &str| {
        let known = counts.iter().find(|(step, _)| *step == name);
        known.map_or(0, |(_, count)| *count)
    };
    let body = count("crc_copy") - count("copy") + count("crc_head");
    let steps = [
        ("send", body),
        ("receive", body + count("ip_sum")),
        ("ack", count("crc_ack") + count("ip_sum")),
    ];
    let mut text = String::from("# Without checksums:\n");
    for (step, checksums) in steps {
        let ours = count(&format!("link_{step}")) - checksums;
        let theirs = count(&format!("tcp_{step}"));
        let ratio = ours as f64 / theirs as f64;
        let line = format!("# {step:8} {ours:5} + {checksums:3} of checksums; tcp {theirs:5}");
        writeln!(text, "{line}; ratio {ratio:.2}").expect("a string");
    }
    text
}

#[test]
fn of_a_packet() {
    let counts = STEPS.map(|(step, function, what)| (step, count_step(function, what)));
    let header = format!("{LINK_HEADER}{}", ratios(&counts));
    check("link.txt", &header, &counts);
}
