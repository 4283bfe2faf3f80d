//! What lies between two hosts fails while a transfer goes on: no byte is lost, and where the other host is
//! gone, the end is the one that kernel TCP has.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tests::ends::kernel_only;
use tests::hosts::{Hosts, Nic};

use super::python;
use super::transfer::{Ended, Transfer};

/// What goes on meanwhile.
const STYLES: [&str; 2] = ["style=stream conns=2", "style=echo conns=4"];
const MORE: u64 = 500_000;

/// Runs each kind of transfer with `fault` in its middle.
fn through(hosts: fn() -> Hosts, fault: fn(&Hosts)) {
    for style in STYLES {
        let hosts = hosts();
        let mut transfer = Transfer::start(&hosts, style);
        fault(&hosts);
        transfer.moves(MORE);
        transfer.finish();
        hosts.check(Nic::Some);
    }
}

#[test]
fn daemon_killed() {
    through(Hosts::two, |hosts| hosts.kill_nicd(0));
}

#[test]
fn daemon_killed_and_another_started() {
    through(Hosts::two, |hosts| {
        hosts.kill_nicd(1);
        hosts.start_nicd(1);
    });
}

#[test]
fn daemon_restarted() {
    through(Hosts::two, |hosts| {
        hosts.stop_nicd(0);
        hosts.start_nicd(0);
    });
}

/// It wakes when everybody has gone on without it.
#[test]
fn daemon_stands_still() {
    through(Hosts::two, |hosts| {
        hosts.signal_nicd(0, libc::SIGSTOP);
        hosts.wait_until_left(1);
        hosts.signal_nicd(0, libc::SIGCONT);
    });
}

#[test]
fn both_daemons_killed() {
    through(Hosts::two, |hosts| {
        hosts.kill_nicd(0);
        hosts.kill_nicd(1);
    });
}

#[test]
fn device_down_and_up() {
    through(Hosts::two, |hosts| {
        hosts.device_down(1);
        hosts.wait_until_left(0);
        hosts.wait_until_left(1);
        hosts.device_up(1);
    });
}

#[test]
fn partition_and_heal() {
    let bridge = || Hosts::on_a_bridge(2);
    through(bridge, |hosts| {
        hosts.unplug(0);
        hosts.wait_until_left(0);
        hosts.wait_until_left(1);
        hosts.plug(0);
    });
}

/// Each time all must come back to the link: those of programs with many threads, too.
#[test]
fn daemons_come_and_go() {
    for style in STYLES {
        let hosts = Hosts::two();
        let mut transfer = Transfer::start(&hosts, style);
        for round in 0..12 {
            hosts.kill_nicd(round % 2);
            hosts.start_nicd(round % 2);
            // Some are back on the link by then, and some on the way.
            sleep(Duration::from_millis(500));
        }
        transfer.moves(MORE);
        if style.contains("echo") {
            hosts.wait_until_served(4);
        }
        transfer.finish();
        hosts.check(Nic::Some);
    }
}

/// What kernel TCP says when its time is over: that it was the time, unless it has found out meanwhile that its
/// neighbour does not answer (`tcp_write_err` in Linux's net/ipv4/tcp_timer.c). With `TESTS_CARRIER=none` the tests of
/// hosts that are gone ask kernel TCP alone.
const GONE: [&str; 2] = ["TimedOut", "HostUnreachable"];
/// So soon, and a question later, for a program that has asked for it.
const SOON: &str = "timeout_ms=1500 keep_alive=1";
/// A look at the clock on a busy machine.
const LATE: Duration = Duration::from_secs(2);

/// The first host is gone, and all connections of the other end like this, within that time.
fn outlive(hosts: &Hosts, transfer: Transfer, known: &[&str], within: Duration) {
    hosts.unplug(0);
    let begin = Instant::now();
    let ends = transfer.survivor();
    let took = begin.elapsed();
    println!("{took:?}: {ends:?}");
    let is_known = |ended: &Ended| known.contains(&ended.end.as_str());
    assert!(ends.iter().all(is_known), "{ends:?}");
    assert!(took < within + LATE, "{took:?}: {ends:?}");
}

/// With bytes under way, or without: then it is the program's own keep-alive that tells.
#[test]
fn host_gone() {
    for style in STYLES {
        let hosts = Hosts::on_a_bridge(2);
        let transfer = Transfer::start(&hosts, &format!("{style} {SOON}"));
        outlive(&hosts, transfer, &GONE, Duration::from_secs(4));
    }
}

/// The same, and everybody waits with nothing unacknowledged.
#[test]
fn host_gone_while_all_wait() {
    let hosts = Hosts::on_a_bridge(2);
    let transfer = Transfer::start(&hosts, &format!("style=echo conns=4 {SOON}"));
    transfer.silence();
    outlive(&hosts, transfer, &GONE, Duration::from_secs(4));
}

/// The kernel asks for the neighbour three times, a second each, and has time to find out that it is not there. On the
/// link its time begins again with the record, up to five seconds later.
#[test]
fn neighbour_gone() {
    for style in STYLES {
        let hosts = Hosts::on_a_bridge(2);
        let transfer = Transfer::start(&hosts, &format!("{style} timeout_ms=5000 keep_alive=1"));
        hosts.unplug(0);
        hosts.forget(1, 0);
        outlive(&hosts, transfer, &GONE[1..], Duration::from_secs(5 + 5));
    }
}

/// Without keep-alive kernel TCP alone would wait for ever. A connection on the link asks within five seconds.
#[test]
fn host_gone_and_nobody_asks() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::on_a_bridge(2);
    let transfer = Transfer::start(&hosts, "style=echo conns=4 timeout_ms=1500");
    hosts.wait_until_served(4);
    transfer.silence();
    outlive(&hosts, transfer, &GONE, Duration::from_millis(5000 + 1500));
}

/// A host whose processes are killed still has a kernel, which says so.
#[test]
fn processes_gone() {
    for style in STYLES {
        let hosts = Hosts::two();
        let transfer = Transfer::start(&hosts, style);
        for ended in transfer.survivor() {
            let known = ["ConnectionReset", "BrokenPipe", "UnexpectedEof", "end"];
            assert!(known.contains(&ended.end.as_str()), "{ended:?}");
        }
    }
}

/// With bytes under way: by exit, by exec, with the socket kept and not.
#[test]
fn leaving() {
    for how in ["exit", "_exit", "exec", "exec-keeping", "exec-in-thread"] {
        let hosts = Hosts::two();
        let arguments = "port=7000 bytes=3000000";
        let reader = hosts.own(0, "leave").args("listen host=::").args(arguments);
        let reader = reader.start().listening(7000);
        let writer = hosts.own(1, "leave").args("connect").args(arguments);
        let address = hosts.host(0).address();
        writer.args(&format!("how={how} host={address}")).run();
        reader.succeed();
        hosts.check(Nic::Any);
    }
}

/// As the program has said (SO_LINGER without any time), and not a clean end.
#[test]
fn closing_resets() {
    for how in ["reset", "reset-exit"] {
        let hosts = Hosts::two();
        let arguments = "port=7000 bytes=0";
        let reader = hosts.own(0, "leave").args("listen host=:: end=reset");
        let reader = reader.args(arguments).start().listening(7000);
        let writer = hosts.own(1, "leave").args("connect").args(arguments);
        let address = hosts.host(0).address();
        writer.args(&format!("how={how} host={address}")).run();
        reader.succeed();
        hosts.check_linked(Nic::Some, 1);
    }
}

/// The kernel tells its verdict once, to us; the program that the process becomes hears that there was one.
#[test]
fn host_gone_before_exec() {
    let hosts = Hosts::on_a_bridge(2);
    let server = python(&hosts, 0, "verdict.py").args("serve :: 7000");
    let server = server.start().listening(7000);
    let client = python(&hosts, 1, "verdict.py").args("call");
    let client = client.arg(hosts.host(0).address());
    let mut client = client.args("7000").piped().start();
    client.prints("ready");
    hosts.wait_until_served(1);
    hosts.unplug(0);
    let known: &[&str] = match kernel_only() {
        true => &["ready\nTimeoutError\n", "ready\nOSError\n"],
        false => &["ready\nConnectionResetError\n"],
    };
    let output = client.succeed();
    assert!(known.contains(&output.as_str()), "{output}");
    server.stop(libc::SIGKILL);
    hosts.check_quiet();
}
