//! A line for each connection.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row};

use super::super::live::Live;
use super::super::model::Connection;
use super::{carrier_style, draw_table, say};
use crate::amount::{address, age, bytes, count};

const HEADINGS: &[(&str, Constraint)] = &[
    ("PROGRAM", Constraint::Length(18)),
    ("PID", Constraint::Length(8)),
    ("LOCAL", Constraint::Fill(2)),
    ("PEER", Constraint::Fill(2)),
    ("CARRIER", Constraint::Length(10)),
    ("OUT/S", Constraint::Length(10)),
    ("IN/S", Constraint::Length(10)),
    ("MSGS/S", Constraint::Length(7)),
    ("RING FILL", Constraint::Length(10)),
    ("AGE", Constraint::Length(7)),
    ("REASON", Constraint::Fill(1)),
];
const BAR: usize = 5;

pub fn draw(frame: &mut Frame, live: &Live, area: Rect) {
    let connections = live.screen.connections(&live.model);
    if connections.is_empty() {
        let text = match live.model.connections.is_empty() {
            true => {
                "no live connections of programs that run on ulsock: start one with `ulsock run -- PROGRAM`"
            }
            false => "none that the filter lets through (Esc clears it)",
        };
        return say(frame, area, text);
    }
    let rows = connections.iter().map(|it| row(it, ""));
    draw_table(frame, area, HEADINGS, rows, Some(live.screen.selected));
}

/// What stands before the program's name says that it is part of something.
pub fn row(connection: &Connection, before: &str) -> Row<'static> {
    let (row, rates) = (&connection.row, &connection.rates);
    let carriers = connection.carriers();
    Row::new([
        Cell::from(format!("{before}{}", row.program)),
        Cell::from(row.pid.to_string()),
        Cell::from(address(row.local)),
        Cell::from(address(row.peer)),
        Cell::from(carriers.clone()).style(carrier_style(&carriers)),
        Cell::from(bytes(rates.tx_bytes as u64)),
        Cell::from(bytes(rates.rx_bytes as u64)),
        Cell::from(count(rates.messages)),
        Cell::from(fill(connection)),
        Cell::from(age(connection.age())),
        Cell::from(row.reason),
    ])
}

/// A bar and a number.
pub fn fill(connection: &Connection) -> Line<'static> {
    let Some(fill) = connection.fill() else {
        return Line::from("");
    };
    let full = (fill * BAR as f64).round() as usize;
    let bar = format!("{}{}", "#".repeat(full), ".".repeat(BAR - full));
    Line::from(vec![
        Span::raw(bar),
        Span::raw(format!(" {:.0} %", 100.0 * fill)),
    ])
}
