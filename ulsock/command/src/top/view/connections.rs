//! A line for each connection.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span, Text};

use super::super::live::Live;
use super::super::model::Connection;
use super::columns::{Column, draw_columns};
use super::{carrier_style, say};
use crate::amount::{address, age, bytes, count};

const COLUMNS: &[Column] = &[
    Column::kept("PROGRAM"),
    Column::of_rank(3, "PID"),
    Column::kept_in_part("LOCAL"),
    Column::kept_in_part("PEER"),
    Column::kept("CARRIER"),
    Column::kept("OUT/S"),
    Column::of_rank(1, "IN/S"),
    Column::of_rank(2, "MSGS/S"),
    Column::of_rank(4, "RING FILL"),
    Column::of_rank(5, "AGE"),
    Column::kept("REASON"),
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
    let rows = connections.iter().map(|it| row(it)).collect();
    draw_columns(frame, area, COLUMNS, rows, live.screen.selected);
}

fn row(connection: &Connection) -> Vec<Text<'static>> {
    let (row, rates) = (&connection.row, &connection.rates);
    let carriers = connection.carriers();
    vec![
        Text::from(row.program.clone()),
        Text::from(row.pid.to_string()),
        Text::from(address(row.local)),
        Text::from(address(row.peer)),
        Text::styled(carriers.clone(), carrier_style(&carriers)),
        Text::from(bytes(rates.tx_bytes as u64)),
        Text::from(bytes(rates.rx_bytes as u64)),
        Text::from(count(rates.messages)),
        Text::from(fill(connection)),
        Text::from(age(connection.age())),
        Text::from(row.reason),
    ]
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
