//! Tables of more columns than fit everywhere: where the screen is narrow, those that matter least are left out.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Text;
use ratatui::widgets::Row;

use super::draw_table;

/// Between two columns, as ratatui draws them.
const GAP: usize = 1;

pub struct Column {
    title: &'static str,
    /// 0: it stays. Of the others, those with the highest go first.
    rank: u8,
    /// What does not fit even so is cut off here.
    may_be_cut: bool,
}

impl Column {
    pub const fn kept(title: &'static str) -> Column {
        Column::of_rank(0, title)
    }

    pub const fn kept_in_part(title: &'static str) -> Column {
        Column {
            title,
            rank: 0,
            may_be_cut: true,
        }
    }

    pub const fn of_rank(rank: u8, title: &'static str) -> Column {
        Column {
            title,
            rank,
            may_be_cut: false,
        }
    }
}

pub fn draw_columns(
    frame: &mut Frame,
    area: Rect,
    columns: &[Column],
    rows: Vec<Vec<Text<'static>>>,
    selected: usize,
) {
    let widths: Vec<usize> = (0..columns.len())
        .map(|it| {
            let texts = rows.iter().filter_map(|row| row.get(it)).map(Text::width);
            texts.max().unwrap_or(0).max(columns[it].title.len())
        })
        .collect();
    let shown = fit(columns, &widths, usize::from(area.width));
    let headings: Vec<_> = shown
        .iter()
        .map(|(it, width)| (columns[*it].title, *width))
        .collect();
    let rows = rows.into_iter().map(|mut row| {
        let cells = shown.iter().map(|(it, _)| std::mem::take(&mut row[*it]));
        Row::new(cells.collect::<Vec<_>>())
    });
    draw_table(frame, area, &headings, rows, Some(selected));
}

/// The columns that are shown, and how wide.
fn fit(columns: &[Column], widths: &[usize], room: usize) -> Vec<(usize, Constraint)> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let taken = |shown: &[usize]| shown.iter().map(|it| widths[*it] + GAP).sum::<usize>();
    while taken(&shown) > room + GAP {
        let least = shown.iter().copied().max_by_key(|it| columns[*it].rank);
        match least.filter(|it| columns[*it].rank > 0) {
            Some(least) => shown.retain(|it| *it != least),
            None => break,
        }
    }
    let is_too_wide = taken(&shown) > room + GAP;
    let width = |it: usize| match is_too_wide && columns[it].may_be_cut {
        true => Constraint::Fill(1),
        false => Constraint::Length(widths[it].try_into().unwrap_or(u16::MAX)),
    };
    shown.into_iter().map(|it| (it, width(it))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[
        Column::kept("PROGRAM"),
        Column::of_rank(2, "AGE"),
        Column::kept_in_part("PEER"),
        Column::of_rank(1, "IN/S"),
    ];

    fn titles(room: usize) -> Vec<&'static str> {
        let shown = fit(COLUMNS, &[7, 5, 20, 9], room).into_iter();
        shown.map(|(it, _)| COLUMNS[it].title).collect()
    }

    #[test]
    fn what_matters_least_goes_first() {
        assert_eq!(titles(44), ["PROGRAM", "AGE", "PEER", "IN/S"]);
        assert_eq!(titles(43), ["PROGRAM", "PEER", "IN/S"]);
        assert_eq!(titles(37), ["PROGRAM", "PEER"]);
        assert_eq!(titles(10), ["PROGRAM", "PEER"]);
        let cut = fit(COLUMNS, &[7, 5, 20, 9], 20);
        assert_eq!(cut, [(0, Constraint::Length(7)), (2, Constraint::Fill(1))]);
    }
}
