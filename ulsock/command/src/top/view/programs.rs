//! A line for each program, and under it its connections if it is opened.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Stylize;
use ratatui::text::Text;
use ratatui::widgets::{Cell, Row};

use super::super::live::Live;
use super::super::model::{Connection, Program, shares};
use super::super::screen::Line;
use super::{carrier_style, draw_table, say};
use crate::amount::{address, bytes, count};

const HEADINGS: &[(&str, Constraint)] = &[
    ("PROGRAM", Constraint::Fill(2)),
    ("PID", Constraint::Length(8)),
    ("PROCS", Constraint::Length(5)),
    ("LIVE", Constraint::Length(6)),
    ("ON RINGS", Constraint::Length(9)),
    ("OUT/S", Constraint::Length(10)),
    ("IN/S", Constraint::Length(10)),
    ("AWAKE", Constraint::Length(6)),
    ("SLEPT", Constraint::Length(6)),
    ("IN VAIN", Constraint::Length(7)),
    ("WAKES/S", Constraint::Length(7)),
    ("UP", Constraint::Length(6)),
    ("DOWN", Constraint::Length(6)),
    ("RUNS IN", Constraint::Fill(1)),
];

pub fn draw(frame: &mut Frame, live: &Live, area: Rect) {
    let lines = live.screen.lines(&live.model);
    if lines.is_empty() {
        return say(frame, area, "no programs that run on ulsock");
    }
    let rows = lines.iter().map(|line| match line {
        Line::Program(program) => {
            program_row(program, live.screen.opened.contains(&program.row.family))
        }
        Line::Connection(connection) => connection_row(connection),
    });
    draw_table(frame, area, HEADINGS, rows, Some(live.screen.selected));
}

fn program_row(program: &Program, is_opened: bool) -> Row<'static> {
    let (row, rates) = (&program.row, &program.rates);
    let shares = shares(&program.waits);
    let share = |n: usize| shares.map_or("-".to_owned(), |all| format!("{:.0} %", 100.0 * all[n]));
    let happened = &row.happened;
    Row::new([
        Cell::from(format!(
            "{} {}",
            if is_opened { "-" } else { "+" },
            row.program
        )),
        Cell::from(row.pid.to_string()),
        Cell::from(row.processes.to_string()),
        Cell::from(row.live.to_string()),
        Cell::from(row.upgraded.to_string()),
        Cell::from(bytes(rates.tx_bytes as u64)),
        Cell::from(bytes(rates.rx_bytes as u64)),
        Cell::from(share(0)),
        Cell::from(share(1)),
        Cell::from(share(2)),
        Cell::from(count(program.wake_ups)),
        Cell::from(count(
            (happened.promoted_shm + happened.promoted_nic) as f64,
        )),
        Cell::from(count((happened.left_shm + happened.left_nic) as f64)),
        Cell::from(program.place.clone()),
    ])
}

fn connection_row(connection: &Connection) -> Row<'static> {
    let (row, rates) = (&connection.row, &connection.rates);
    let carriers = connection.carriers();
    let ends = format!("    {} > {}", address(row.local), address(row.peer));
    Row::new([
        Cell::from(Text::from(ends).dim()),
        Cell::from(row.pid.to_string()),
        Cell::from(""),
        Cell::from(""),
        Cell::from(carriers.clone()).style(carrier_style(&carriers)),
        Cell::from(bytes(rates.tx_bytes as u64)),
        Cell::from(bytes(rates.rx_bytes as u64)),
        Cell::from(""),
        Cell::from(""),
        Cell::from(""),
        Cell::from(""),
        Cell::from(""),
        Cell::from(""),
        Cell::from(row.reason),
    ])
}
