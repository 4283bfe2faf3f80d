//! The daemon of this host and its links.

use ::nicd::{InterfaceStatus, PeerStatus, Status};

use super::exposition::{Exposition, Kind};

struct Of<T> {
    name: &'static str,
    kind: Kind,
    about: &'static str,
    value: fn(&T) -> f64,
}

const PEER: &[Of<PeerStatus>] = &[
    Of {
        name: "ulsock_nicd_peer_in_touch",
        kind: Kind::Gauge,
        about: "1 if the daemon of that host answers.",
        value: |it| f64::from(u8::from(it.in_touch)),
    },
    Of {
        name: "ulsock_nicd_link_up",
        kind: Kind::Gauge,
        about: "1 if there is a link to that host.",
        value: |it| f64::from(u8::from(it.link_up)),
    },
    Of {
        name: "ulsock_nicd_link_round_trip_seconds",
        kind: Kind::Gauge,
        about: "The smoothed round trip of the link.",
        value: |it| it.round_trip / 1e6,
    },
    Of {
        name: "ulsock_nicd_link_window_bytes",
        kind: Kind::Gauge,
        about: "How much may be under way on the link.",
        value: |it| it.window as f64,
    },
    Of {
        name: "ulsock_nicd_link_connections",
        kind: Kind::Gauge,
        about: "Connections that go by the link.",
        value: |it| it.served as f64,
    },
    Of {
        name: "ulsock_nicd_link_sent_packets_total",
        kind: Kind::Counter,
        about: "Packets that were sent by the link.",
        value: |it| it.packets_sent as f64,
    },
    Of {
        name: "ulsock_nicd_link_received_packets_total",
        kind: Kind::Counter,
        about: "Packets that were received by the link.",
        value: |it| it.packets_received as f64,
    },
    Of {
        name: "ulsock_nicd_link_lost_packets_total",
        kind: Kind::Counter,
        about: "Packets that were lost on the link and sent again.",
        value: |it| it.packets_lost as f64,
    },
];

const INTERFACE: &[Of<InterfaceStatus>] = &[
    Of {
        name: "ulsock_nicd_interface_open",
        kind: Kind::Gauge,
        about: "1 if the daemon's port on the interface is open.",
        value: |it| f64::from(u8::from(it.open)),
    },
    Of {
        name: "ulsock_nicd_interface_sent_frames_total",
        kind: Kind::Counter,
        about: "Frames that were sent.",
        value: |it| it.frames_sent as f64,
    },
    Of {
        name: "ulsock_nicd_interface_received_frames_total",
        kind: Kind::Counter,
        about: "Frames that were received.",
        value: |it| it.frames_received as f64,
    },
    Of {
        name: "ulsock_nicd_interface_stranger_frames_total",
        kind: Kind::Counter,
        about: "Frames that came from hosts that are no peers, and were dropped.",
        value: |it| it.strangers as f64,
    },
    Of {
        name: "ulsock_nicd_interface_hostile_frames_total",
        kind: Kind::Counter,
        about: "Frames that no honest peer sends, which were dropped.",
        value: |it| it.hostile as f64,
    },
];

pub fn show(status: &Status, all: &mut Exposition) {
    all.family(
        "ulsock_nicd_programs",
        Kind::Gauge,
        "Programs that the daemon serves.",
    )
    .sample(&[], status.programs as f64);
    for it in PEER {
        let mut family = all.family(it.name, it.kind, it.about);
        for peer in &status.peers {
            let labels = [("peer", peer.name.as_str()), ("address", &peer.address)];
            family.sample(&labels, (it.value)(peer));
        }
    }
    for it in INTERFACE {
        let mut family = all.family(it.name, it.kind, it.about);
        for interface in &status.interfaces {
            family.sample(&[("interface", &interface.name)], (it.value)(interface));
        }
    }
}
