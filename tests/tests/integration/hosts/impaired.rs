//! A bad cable: of all frames of the link some are lost, come twice, are overtaken, or have a bit turned over. Every
//! byte arrives as it was sent, and the link goes on carrying them: a lost frame is no reason to leave it.

use std::time::Instant;

use tests::ends::kernel_only;
use tests::hosts::{Hosts, Nic};

use super::transfer::{Transfer, long};

const BAD: &str = "loss=1%,duplication=1%,reordering=1%,corruption=0.5%";

/// Each end has received so much, and all by the link, which has noticed how bad the cable is.
fn through(style: &str, bytes: u64) {
    // The daemons have the bad cable, not the queues that they lease.
    let hosts = Hosts::two_impaired(BAD).with("ULSOCK_NIC", "daemon");
    let mut transfer = Transfer::start(&hosts, style);
    let start = Instant::now();
    transfer.moves(bytes);
    let rate = bytes as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("{style}: {rate:.0} MB/s to each end");
    if !kernel_only() {
        still_served(&hosts);
    }
    transfer.finish();
    hosts.check(Nic::Most);
}

fn still_served(hosts: &Hosts) {
    for host in 0..hosts.count() {
        let status = hosts.nicd_status(host);
        println!("host {host}: {status:?}");
        assert_eq!(status.served, 1, "{status:?}");
        // One frame in 66 does not arrive, and one in a hundred late enough to be taken for lost.
        let (sent, lost) = (status.packets_sent, status.packets_lost);
        assert!(lost > sent / 200 && lost < sent / 10, "{status:?}");
    }
}

/// `TESTS_HOSTS_GB=10` is ten gigabytes to each end.
#[test]
fn a_stream() {
    through("style=stream conns=1", long());
}

#[test]
fn round_trips() {
    through("style=echo conns=1", 1_000_000);
}
