//! What the keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::model::Model;
use super::screen::{Screen, Tab};

const PAGE: isize = 20;

pub const HELP: &[(&str, &str)] = &[
    ("Tab, 1 to 4", "connections, programs, links, totals"),
    ("Up, Down, PgUp, PgDn, Home, End", "select"),
    (
        "Enter",
        "detail of a connection; the connections of a program",
    ),
    ("Esc", "back"),
    ("s, r", "sort by the next column; reverse"),
    (
        "/",
        "filter by any text of a connection; Enter ends, Esc clears",
    ),
    ("p, Space", "pause"),
    ("q, Ctrl-C", "quit"),
];

/// Does it go on?
pub fn press(key: KeyEvent, screen: &mut Screen, model: &Model) -> bool {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    if is_control && key.code == KeyCode::Char('c') {
        return false;
    }
    if screen.edits_filter {
        edit(key, screen);
        return true;
    }
    match key.code {
        KeyCode::Char('q') => return false,
        KeyCode::Esc if screen.shows_help => screen.shows_help = false,
        KeyCode::Esc if screen.detail.is_some() => screen.detail = None,
        KeyCode::Esc => screen.filter.clear(),
        KeyCode::Char('?' | 'h') => screen.shows_help = !screen.shows_help,
        KeyCode::Char('p' | ' ') => screen.is_paused = !screen.is_paused,
        KeyCode::Char('s') => screen.sort_by_next(),
        KeyCode::Char('r') => screen.is_reversed = !screen.is_reversed,
        KeyCode::Char('/') => screen.edits_filter = true,
        KeyCode::Char(digit @ '1'..='4') => screen.go_to(Tab::ALL[digit as usize - '1' as usize]),
        KeyCode::Tab => next_tab(screen, 1),
        KeyCode::BackTab => next_tab(screen, Tab::ALL.len() - 1),
        KeyCode::Up | KeyCode::Char('k') => screen.select(model, -1),
        KeyCode::Down | KeyCode::Char('j') => screen.select(model, 1),
        KeyCode::PageUp => screen.select(model, -PAGE),
        KeyCode::PageDown => screen.select(model, PAGE),
        KeyCode::Home => screen.selected = 0,
        KeyCode::End => screen.select(model, isize::MAX),
        KeyCode::Enter => screen.open(model),
        _ => {}
    }
    true
}

fn edit(key: KeyEvent, screen: &mut Screen) {
    match key.code {
        KeyCode::Enter => screen.edits_filter = false,
        KeyCode::Esc => {
            screen.filter.clear();
            screen.edits_filter = false;
        }
        KeyCode::Backspace => drop(screen.filter.pop()),
        KeyCode::Char(letter) => screen.filter.push(letter),
        _ => {}
    }
    screen.selected = 0;
}

fn next_tab(screen: &mut Screen, by: usize) {
    let place = Tab::ALL.iter().position(|it| *it == screen.tab);
    screen.go_to(Tab::ALL[(place.unwrap_or(0) + by) % Tab::ALL.len()]);
}
