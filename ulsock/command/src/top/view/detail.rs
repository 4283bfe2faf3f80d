//! All that is known of one connection, with the history of its carriers.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row};
use rendezvous::reason::Reason;
use sockets::journal::Event;

use super::super::history::{Key, key};
use super::super::live::Live;
use super::super::model::Connection;
use super::{carrier_text, connections, draw_table, say};
use crate::amount::{address, age, bytes, count};
use crate::events::line;
use crate::utc;

pub fn draw(frame: &mut Frame, live: &Live, of: &Key, area: Rect) {
    let found = live.model.connections.iter();
    let Some(connection) = found.clone().find(|it| key(&it.row) == *of) else {
        return say(frame, area, "this connection has ended (Esc: back)");
    };
    let rows = [Constraint::Length(10), Constraint::Min(4)];
    let [facts, events] = Layout::vertical(rows).areas(area);
    let block = Block::bordered().title("Connection");
    frame.render_widget(Paragraph::new(lines(connection)).block(block), facts);
    draw_history(frame, live.history.of(of), events);
}

fn lines(connection: &Connection) -> Vec<Line<'static>> {
    let (row, rates) = (&connection.row, &connection.rates);
    let carriers = |carrier: &'static str| carrier_text(carrier.to_owned(), carrier);
    let mut fill = vec!["unread by the peer ".into()];
    match connection.unread {
        Some(unread) => {
            fill.push(format!("{}, ring of {}  ", bytes(unread), bytes(row.tx_ring)).into());
            fill.extend(connections::fill(connection).spans);
        }
        None => fill.push("not known: it is not on this host".into()),
    }
    vec![
        Line::from(format!(
            "{}[{}], held by {} processes, {} old",
            row.program,
            row.pid,
            row.holders,
            age(connection.age())
        )),
        Line::from(format!("{} to {}", address(row.local), address(row.peer))),
        Line::from(vec![
            "sends by ".into(),
            carriers(row.carrier_tx),
            ", receives by ".into(),
            carriers(row.carrier_rx),
        ]),
        Line::from(match row.reason {
            "" => String::new(),
            reason => format!(
                "on kernel TCP because: {reason}: {}",
                Reason::meaning_of(reason)
            ),
        }),
        Line::from(format!(
            "sent     {} in {} messages, {}/s",
            bytes(row.tx_bytes),
            row.tx_msgs,
            bytes(rates.tx_bytes as u64)
        )),
        Line::from(format!(
            "received {} in {} messages, {}/s",
            bytes(row.rx_bytes),
            row.rx_msgs,
            bytes(rates.rx_bytes as u64)
        )),
        Line::from(format!("{} messages/s", count(rates.messages))),
        Line::from(fill),
    ]
}

fn draw_history<'a>(frame: &mut Frame, events: impl Iterator<Item = &'a Event>, area: Rect) {
    let headings = [
        ("WHEN", Constraint::Length(28)),
        ("WHAT", Constraint::Length(12)),
        ("", Constraint::Fill(1)),
    ];
    let mut rows: Vec<Row> = events
        .map(|event| {
            Row::new([
                utc::text(event.time),
                line::kind(event).to_owned(),
                line::detail(event),
            ])
        })
        .collect();
    rows.reverse();
    draw_table(frame, area, &headings, rows.into_iter(), None);
}
