//! The links of the daemon to other hosts.

use ::nicd::PeerStatus;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::widgets::Row;

use super::super::live::Live;
use super::{draw_table, say};
use crate::amount::{bytes, count};

const HEADINGS: &[(&str, Constraint)] = &[
    ("HOST", Constraint::Fill(1)),
    ("ADDRESS", Constraint::Fill(1)),
    ("STATE", Constraint::Fill(2)),
    ("INTERFACE", Constraint::Length(12)),
    ("RTT", Constraint::Length(10)),
    ("LOSS", Constraint::Length(8)),
    ("WINDOW", Constraint::Length(10)),
    ("UNDER WAY", Constraint::Length(10)),
    ("CONNECTIONS", Constraint::Length(11)),
    ("PACKETS OUT", Constraint::Length(11)),
    ("IN", Constraint::Length(8)),
];

pub fn draw(frame: &mut Frame, live: &Live, area: Rect) {
    let Some(status) = &live.links else {
        return say(
            frame,
            area,
            "no nicd runs here: connections to other hosts stay on kernel TCP (`ulsock nicd` starts it)",
        );
    };
    if status.peers.is_empty() {
        return say(frame, area, "nicd runs and knows no other host yet");
    }
    let rows = status.peers.iter().map(row);
    draw_table(frame, area, HEADINGS, rows, None);
}

fn row(peer: &PeerStatus) -> Row<'static> {
    let plain = |text: &str| os::plain::plain(text.as_bytes());
    let state = match (peer.in_touch, peer.link_up) {
        (_, true) => "up".to_owned(),
        (true, false) if peer.at_rest => "at rest".to_owned(),
        (true, false) if peer.why.is_empty() => "down".to_owned(),
        (true, false) => plain(&peer.why),
        (false, _) => "not in touch".to_owned(),
    };
    let loss = 100.0 * peer.packets_lost as f64 / peer.packets_sent.max(1) as f64;
    Row::new([
        plain(&peer.name),
        plain(&peer.address),
        state,
        plain(&peer.interface),
        match peer.round_trip {
            0.0 => "-".to_owned(),
            micros => format!("{micros:.0} us"),
        },
        format!("{loss:.2} %"),
        bytes(peer.window),
        bytes(peer.in_flight),
        peer.served.to_string(),
        count(peer.packets_sent as f64),
        count(peer.packets_received as f64),
    ])
}
