//! Draws what is shown.

mod columns;
mod connections;
mod detail;
mod links;
mod programs;
mod totals;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState, Tabs};

use super::keys::HELP;
use super::live::Live;
use super::model::shares;
use super::screen::Tab;
use crate::amount::{bytes, count};
use sockets::observe::WaitCounts;

pub fn draw(frame: &mut Frame, live: &Live) {
    let rows = [
        Constraint::Length(2),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(1),
    ];
    let [head, tabs, body, foot] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Paragraph::new(summary(live)), head);
    draw_tabs(frame, live, tabs);
    match (live.screen.detail, live.screen.tab) {
        (Some(key), _) => detail::draw(frame, live, &key, body),
        (None, Tab::Connections) => connections::draw(frame, live, body),
        (None, Tab::Programs) => programs::draw(frame, live, body),
        (None, Tab::Links) => links::draw(frame, live, body),
        (None, Tab::Totals) => totals::draw(frame, live, body),
    }
    frame.render_widget(Paragraph::new(foot_line(live)), foot);
    if live.screen.shows_help {
        draw_help(frame, body);
    }
}

/// Of all that is looked at.
fn summary(live: &Live) -> Vec<Line<'static>> {
    let model = &live.model;
    let on = |carrier: &str| {
        let by = model.connections.iter();
        by.filter(|it| it.row.carrier_tx == carrier).count()
    };
    let rate = |of: fn(&super::model::Rates) -> f64| -> f64 {
        model.connections.iter().map(|it| of(&it.rates)).sum()
    };
    let mut waits = WaitCounts::default();
    for program in &model.programs {
        waits.awake += program.waits.awake;
        waits.slept += program.waits.slept;
        waits.in_vain += program.waits.in_vain;
    }
    let first = vec![
        "ulsock top".bold(),
        format!(
            "  {} programs, {} connections: ",
            model.programs.len(),
            model.connections.len()
        )
        .into(),
        carrier_text(format!("{} shm", on("shm")), "shm"),
        ", ".into(),
        carrier_text(format!("{} nic", on("nic")), "nic"),
        ", ".into(),
        carrier_text(format!("{} kernel", on("kernel")), "kernel"),
    ];
    let second = format!(
        "sent {}/s, {} msgs/s; waits: {}",
        bytes(rate(|it| it.tx_bytes) as u64),
        count(rate(|it| it.messages) / 2.0),
        waits_text(&waits)
    );
    vec![Line::from(first), Line::from(second)]
}

fn waits_text(waits: &WaitCounts) -> String {
    match shares(waits) {
        None => "none".to_owned(),
        Some(shares) => {
            let [awake, slept, in_vain] = shares.map(|it| 100.0 * it);
            format!("{awake:.0} % awake, {slept:.0} % asleep, {in_vain:.0} % in vain")
        }
    }
}

fn draw_tabs(frame: &mut Frame, live: &Live, area: Rect) {
    let titles = Tab::ALL.iter().enumerate();
    let titles = titles.map(|(n, tab)| format!("{} {}", n + 1, tab.title()));
    let place = Tab::ALL.iter().position(|it| *it == live.screen.tab);
    let tabs = Tabs::new(titles)
        .select(place)
        .highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_widget(tabs, area);
}

fn foot_line(live: &Live) -> Line<'static> {
    let screen = &live.screen;
    if screen.edits_filter {
        return Line::from(format!(
            "filter: {}_",
            os::plain::plain(screen.filter.as_bytes())
        ));
    }
    let reversed = if screen.is_reversed { ", reversed" } else { "" };
    let mut parts = vec![format!("sorted by {}{reversed}", screen.sort.title())];
    if !screen.filter.is_empty() {
        parts.push(format!(
            "filter {}",
            os::plain::plain(screen.filter.as_bytes())
        ));
    }
    if screen.is_paused {
        parts.push("paused".to_owned());
    }
    if live.history.missed > 0 {
        parts.push(format!("{} events missed", live.history.missed));
    }
    parts.push("? help, q quit".to_owned());
    Line::from(parts.join("   ")).dim()
}

fn draw_help(frame: &mut Frame, area: Rect) {
    let height = (HELP.len() as u16 + 2).min(area.height);
    let area = Rect { height, ..area };
    let rows = HELP.iter().map(|(keys, what)| Row::new([*keys, *what]));
    let widths = [Constraint::Length(36), Constraint::Min(20)];
    frame.render_widget(Clear, area);
    frame.render_widget(
        Table::new(rows, widths).block(Block::bordered().title("Keys")),
        area,
    );
}

/// A carrier has the same colour everywhere.
fn carrier_style(carrier: &str) -> Style {
    match carrier {
        "shm" => Style::new().fg(Color::Green),
        "nic" => Style::new().fg(Color::Cyan),
        "kernel" => Style::new().fg(Color::Yellow),
        _ => Style::new().fg(Color::Magenta),
    }
}

fn carrier_text(text: String, carrier: &str) -> Span<'static> {
    Span::styled(text, carrier_style(carrier))
}

/// A table whose selected line is kept in sight.
fn draw_table<'a>(
    frame: &mut Frame,
    area: Rect,
    headings: &[(&'static str, Constraint)],
    rows: impl Iterator<Item = Row<'a>>,
    selected: Option<usize>,
) {
    let heading = Row::new(headings.iter().map(|(title, _)| *title));
    let widths = headings.iter().map(|(_, width)| *width);
    let table = Table::new(rows, widths)
        .header(heading.style(Style::new().add_modifier(Modifier::BOLD)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(selected);
    frame.render_stateful_widget(table, area, &mut state);
}

/// Instead of an empty table.
fn say(frame: &mut Frame, area: Rect, text: &'static str) {
    frame.render_widget(Paragraph::new(text).dim(), area);
}
