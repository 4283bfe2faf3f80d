//! A line for each program, and under it its connections if it is opened.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Stylize;
use ratatui::text::Text;

use super::super::live::Live;
use super::super::model::{Connection, Program, shares};
use super::super::screen::Line;
use super::columns::{Column, draw_columns};
use super::{carrier_style, say};
use crate::amount::{address, bytes, count};

const COLUMNS: &[Column] = &[
    Column::kept_in_part("PROGRAM"),
    Column::kept("PID"),
    Column::of_rank(6, "PROCS"),
    Column::kept("LIVE"),
    Column::kept("ON RINGS"),
    Column::kept("OUT/S"),
    Column::kept("IN/S"),
    Column::of_rank(2, "AWAKE"),
    Column::of_rank(3, "SLEPT"),
    Column::of_rank(4, "IN VAIN"),
    Column::of_rank(5, "WAKES/S"),
    Column::of_rank(7, "UP"),
    Column::of_rank(8, "DOWN"),
    Column::of_rank(1, "RUNS IN"),
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
    draw_columns(frame, area, COLUMNS, rows.collect(), live.screen.selected);
}

fn program_row(program: &Program, is_opened: bool) -> Vec<Text<'static>> {
    let (row, rates) = (&program.row, &program.rates);
    let shares = shares(&program.waits);
    let share = |n: usize| shares.map_or("-".to_owned(), |all| format!("{:.0} %", 100.0 * all[n]));
    let happened = &row.happened;
    vec![
        Text::from(format!(
            "{} {}",
            if is_opened { "-" } else { "+" },
            row.program
        )),
        Text::from(row.pid.to_string()),
        Text::from(row.processes.to_string()),
        Text::from(row.live.to_string()),
        Text::from(row.upgraded.to_string()),
        Text::from(bytes(rates.tx_bytes as u64)),
        Text::from(bytes(rates.rx_bytes as u64)),
        Text::from(share(0)),
        Text::from(share(1)),
        Text::from(share(2)),
        Text::from(count(program.wake_ups)),
        Text::from(count(
            (happened.promoted_shm + happened.promoted_nic) as f64,
        )),
        Text::from(count((happened.left_shm + happened.left_nic) as f64)),
        Text::from(program.place.clone()),
    ]
}

fn connection_row(connection: &Connection) -> Vec<Text<'static>> {
    let (row, rates) = (&connection.row, &connection.rates);
    let carriers = connection.carriers();
    let ends = format!("    {} > {}", address(row.local), address(row.peer));
    vec![
        Text::from(ends).dim(),
        Text::from(row.pid.to_string()),
        Text::from(""),
        Text::from(""),
        Text::styled(carriers.clone(), carrier_style(&carriers)),
        Text::from(bytes(rates.tx_bytes as u64)),
        Text::from(bytes(rates.rx_bytes as u64)),
        Text::from(""),
        Text::from(""),
        Text::from(""),
        Text::from(""),
        Text::from(""),
        Text::from(""),
        Text::from(row.reason),
    ]
}
