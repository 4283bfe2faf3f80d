//! What all have done since they began: by carrier, by event, and by the reason for kernel TCP.

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::widgets::Row;
use sockets::observe::{Carried, Happened};

use super::super::live::Live;
use super::draw_table;
use crate::amount::bytes;

pub fn draw(frame: &mut Frame, live: &Live, area: Rect) {
    let rows = [
        Constraint::Length(4),
        Constraint::Length(9),
        Constraint::Min(3),
    ];
    let [carriers, events, reasons] = Layout::vertical(rows).areas(area);
    draw_carriers(frame, live, carriers);
    draw_events(frame, live, events);
    draw_reasons(frame, live, reasons);
}

fn draw_carriers(frame: &mut Frame, live: &Live, area: Rect) {
    let mut all = Carried::default();
    for program in &live.model.programs {
        all.add(program.row.carried);
    }
    let headings = [
        ("CARRIER", Constraint::Length(24)),
        ("SENT", Constraint::Length(12)),
        ("RECEIVED", Constraint::Length(12)),
    ];
    let rows = [
        ("rings", all.ring_tx, all.ring_rx),
        ("kernel TCP", all.kernel_tx, all.kernel_rx),
    ];
    let rows = rows.map(|(carrier, tx, rx)| Row::new([carrier.to_owned(), bytes(tx), bytes(rx)]));
    draw_table(frame, area, &headings, rows.into_iter(), None);
}

fn draw_events(frame: &mut Frame, live: &Live, area: Rect) {
    let sum = |count: fn(&Happened) -> u64| -> u64 {
        let programs = live.model.programs.iter();
        programs.map(|it| count(&it.row.happened)).sum()
    };
    let headings = [
        ("SINCE THEY BEGAN", Constraint::Length(24)),
        ("COUNT", Constraint::Length(12)),
    ];
    let rows = [
        ("opened", sum(|it| it.opened)),
        ("closed", sum(|it| it.closed)),
        ("reset", sum(|it| it.reset)),
        ("promoted to shm", sum(|it| it.promoted_shm)),
        ("promoted to nic", sum(|it| it.promoted_nic)),
        ("demoted from shm", sum(|it| it.left_shm)),
        ("demoted from nic", sum(|it| it.left_nic)),
    ];
    let rows = rows.map(|(what, count)| Row::new([what.to_owned(), count.to_string()]));
    draw_table(frame, area, &headings, rows.into_iter(), None);
}

fn draw_reasons(frame: &mut Frame, live: &Live, area: Rect) {
    let mut reasons: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for connection in &live.model.connections {
        if !connection.row.reason.is_empty() {
            reasons.entry(connection.row.reason).or_default()[0] += 1;
        }
    }
    for program in &live.model.programs {
        for (reason, count) in &program.row.ended {
            reasons.entry(reason).or_default()[1] += count;
        }
    }
    let headings = [
        ("ON KERNEL TCP BECAUSE", Constraint::Length(24)),
        ("LIVE", Constraint::Length(12)),
        ("ENDED", Constraint::Length(12)),
    ];
    let rows = reasons.into_iter().map(|(reason, [live, ended])| {
        Row::new([reason.to_owned(), live.to_string(), ended.to_string()])
    });
    draw_table(frame, area, &headings, rows, None);
}
