//! How large packets are.

use std::net::SocketAddr;

use netstack::link::Way;
use netstack::wire::Addresses;

use super::*;

fn pair_of(port: usize, network: usize) -> Pair<Fixed> {
    let conditions = Conditions {
        mtu: network - 28,
        ..Conditions::default()
    };
    Pair::tuned(conditions, 1, Fixed::new(1 << 18), |config| {
        config.mtu = port
    })
}

fn size(pair: &Pair<Fixed>) -> usize {
    pair.a.link.path(0).expect("a path").packet + 28
}

// [M1] [M2]
#[test]
fn the_size_is_found() {
    for (port, network, least) in [
        (1500, 1500, 1500),
        (9000, 9000, 9000),
        (9000, 1500, 1500),
        (9000, 4000, 3980),
        (1500, 1300, 1280),
    ] {
        let mut pair = pair_of(port, network);
        let (a, b) = pair.connect(1, 1 << 16);
        pair.a.write(pair.now, a, 1 << 20);
        run(&mut pair, MS * 1000);
        assert_eq!(pair.b.rings.get(b).read, 1000 + (1 << 20));
        assert!(
            (least..=network).contains(&size(&pair)),
            "{port} {network}: {}",
            size(&pair)
        );
        // [M2] Nothing was taken for lost but the trials, and then there is peace.
        assert_eq!(pair.a.link.counters().bytes_again, 0);
        assert_eq!(pair.a.link.deadline(), None);
    }
}

// [M1] IPv6 takes 20 bytes more of each packet, and nothing else is otherwise.
#[test]
fn over_ipv6() {
    for (port, network) in [(1500, 1500), (9000, 9000), (1500, 1280)] {
        let mut pair = pair_of(port, network - 20);
        for host in [&mut pair.a, &mut pair.b] {
            let ways = host.ways.iter().map(in_ipv6).collect();
            *host = Host::new(
                host.me,
                host.peer,
                host.me.into(),
                Fixed::new(1 << 18),
                |config| {
                    (config.ways, config.mtu) = (ways, port);
                },
            );
        }
        let (a, b) = pair.connect(1, 1 << 16);
        pair.a.write(pair.now, a, 1 << 20);
        run(&mut pair, MS * 1000);
        assert_eq!(pair.b.rings.get(b).read, 1000 + (1 << 20));
        let size = size(&pair) + 20;
        assert!(
            (network - 16..=network).contains(&size),
            "{size} of {network}"
        );
    }
}

fn in_ipv6(way: &Way) -> Way {
    let end = |end: SocketAddr| match end {
        SocketAddr::V4(v4) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        SocketAddr::V6(_) => end,
    };
    let both = |addresses: Addresses| Addresses {
        source: end(addresses.source),
        destination: end(addresses.destination),
    };
    Way {
        outgoing: both(way.outgoing),
        incoming: both(way.incoming),
    }
}

// [M3] Also if small packets of another connection still come through.
#[test]
fn a_network_that_becomes_narrow_is_noticed() {
    for beside in [false, true] {
        let mut pair = pair_of(9000, 9000);
        let (a, b) = pair.connect(1, 1 << 16);
        let (a2, _) = pair.connect(2, 1 << 16);
        pair.a.write(pair.now, a, 1 << 20);
        run(&mut pair, MS * 100);
        assert_eq!(size(&pair), 9000);
        (pair.to_b.conditions.mtu, pair.to_a.conditions.mtu) = (1372, 1372);
        pair.a.write(pair.now, a, 1 << 20);
        for _ in 0..300 {
            if beside {
                pair.a.write(pair.now, a2, 10);
            }
            run(&mut pair, MS / 5);
        }
        assert_eq!(pair.b.rings.get(b).read, 1000 + (1 << 21), "{beside}");
        assert!(size(&pair) <= 1400);
        assert_eq!(death(&pair.a), None);
    }
}

// [G1] A window smaller than a packet lets one go.
#[test]
fn a_small_window_does_not_stop_large_packets() {
    let conditions = Conditions {
        mtu: 8972,
        ..Conditions::default()
    };
    let mut pair = Pair::tuned(conditions, 1, Fixed::new(3000), |config| config.mtu = 9000);
    let (a, b) = pair.connect(1, 1 << 16);
    pair.a.write(pair.now, a, 100_000);
    run(&mut pair, MS * 100);
    assert_eq!(size(&pair), 9000);
    assert_eq!(pair.b.rings.get(b).read, 101_000);
}
