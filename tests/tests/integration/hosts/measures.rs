//! The programs that measure networks, for whether they work: iperf3, NetPIPE and sockperf check their own
//! bytes or their order.

use serde_json::Value;
use tests::hosts::{Hosts, Nic};

const IPERF3: &[&str] = &["-n 100M", "-n 100M -R", "-n 100M -P 4", "-6 -n 100M"];

#[test]
fn iperf3() {
    for options in IPERF3 {
        let hosts = Hosts::two();
        let host = hosts.host(0);
        let address = match options.contains("-6") {
            true => host.address6(),
            false => host.address(),
        };
        let server = hosts.program(0, "iperf3").args("-s -1").start();
        let server = server.listening(5201);
        let client = hosts.program(1, "iperf3").args(&format!("-c {address} -J"));
        let output = client.args(options).run();
        let result: Value = serde_json::from_str(&output).expect("iperf3's JSON");
        let received = result["end"]["sum_received"]["bytes"].as_u64();
        // Less than was sent: the receiver stops counting when the sender's control message comes.
        assert!(received > Some(50_000_000), "{options}: {received:?}");
        server.succeed();
        hosts.check(Nic::Any);
    }
}

/// A stream that leaves its reader time to sleep, and to which it never answers.
#[test]
fn iperf3_at_a_rate() {
    let hosts = Hosts::two();
    let server = hosts.program(0, "iperf3").args("-s -1").start();
    let server = server.listening(5201);
    let client = hosts.program(1, "iperf3").args("-l 1K -b 8M -t 3 -c");
    client.arg(hosts.host(0).address()).run();
    server.succeed();
    hosts.check(Nic::Most);
}

#[test]
fn netpipe() {
    for options in ["-u 200000 -n 20", "-u 100000 -n 20 -i"] {
        let hosts = Hosts::two();
        let receiver = hosts.program(0, "NPtcp").args(options);
        let receiver = receiver.directory(hosts.folder()).args("-P 5002").start();
        let receiver = receiver.listening(5002);
        let sender = hosts.program(1, "NPtcp").args(options).args("-P 5002 -h");
        let sender = sender.arg(hosts.host(0).address());
        let finished = sender.directory(hosts.folder()).start().wait();
        let table = finished.errors;
        assert!(finished.status.success(), "{options}: {table}");
        assert!(!table.contains("failed"), "{options}: {table}");
        assert!(
            table.contains("65536 bytes") || table.contains("65537 bytes"),
            "{table}"
        );
        receiver.succeed();
        hosts.check(Nic::Most);
    }
}

#[test]
fn sockperf() {
    const NOTHING_LOST: &str =
        "# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0";
    for options in [
        "ping-pong -m 64",
        "under-load -m 100 --mps 10000 --reply-every 10",
    ] {
        let hosts = Hosts::two();
        let end = format!("--tcp -i {} -p 11111", hosts.host(0).address());
        let server = hosts
            .program(0, "sockperf")
            .args("server")
            .args(&end)
            .start();
        let server = server.listening(11111);
        let client = hosts.program(1, "sockperf").args(options).args(&end);
        let output = client.args("-t 1").run();
        assert!(output.contains(NOTHING_LOST), "{options}: {output}");
        server.stop(libc::SIGINT);
        hosts.check(Nic::Most);
    }
}
