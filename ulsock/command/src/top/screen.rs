//! What is shown of the model: which part, in which order, with what selected.

use super::history::{Key, key};
use super::model::{Connection, Model, Program};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    Connections,
    Programs,
    Links,
    Totals,
}

impl Tab {
    pub const ALL: [Tab; 4] = [Tab::Connections, Tab::Programs, Tab::Links, Tab::Totals];

    pub fn title(self) -> &'static str {
        match self {
            Tab::Connections => "Connections",
            Tab::Programs => "Programs",
            Tab::Links => "Links",
            Tab::Totals => "Totals",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Rate,
    Messages,
    Bytes,
    Fill,
    Age,
    Program,
    Carrier,
    Reason,
}

impl Sort {
    const ALL: [Sort; 8] = [
        Sort::Rate,
        Sort::Messages,
        Sort::Bytes,
        Sort::Fill,
        Sort::Age,
        Sort::Program,
        Sort::Carrier,
        Sort::Reason,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Sort::Rate => "rate",
            Sort::Messages => "messages",
            Sort::Bytes => "bytes",
            Sort::Fill => "fill",
            Sort::Age => "age",
            Sort::Program => "program",
            Sort::Carrier => "carrier",
            Sort::Reason => "reason",
        }
    }

    fn next(self) -> Sort {
        let place = Sort::ALL.iter().position(|it| *it == self).unwrap_or(0);
        Sort::ALL[(place + 1) % Sort::ALL.len()]
    }
}

/// A line of the tab of programs.
pub enum Line<'a> {
    Program(&'a Program),
    Connection(&'a Connection),
}

pub struct Screen {
    pub tab: Tab,
    pub sort: Sort,
    pub is_reversed: bool,
    pub filter: String,
    pub edits_filter: bool,
    pub selected: usize,
    /// Programs that show their connections.
    pub opened: Vec<u64>,
    pub detail: Option<Key>,
    pub is_paused: bool,
    pub shows_help: bool,
}

impl Screen {
    pub fn new() -> Screen {
        Screen {
            tab: Tab::Connections,
            sort: Sort::Rate,
            is_reversed: false,
            filter: String::new(),
            edits_filter: false,
            selected: 0,
            opened: Vec::new(),
            detail: None,
            is_paused: false,
            shows_help: false,
        }
    }

    pub fn go_to(&mut self, tab: Tab) {
        (self.tab, self.selected, self.detail) = (tab, 0, None);
    }

    pub fn sort_by_next(&mut self) {
        self.sort = self.sort.next();
    }

    /// Those that the filter lets through, in order.
    pub fn connections<'a>(&self, model: &'a Model) -> Vec<&'a Connection> {
        let shown = model.connections.iter().filter(|it| self.has(it));
        let mut shown: Vec<&Connection> = shown.collect();
        self.order(&mut shown);
        shown
    }

    fn has(&self, connection: &Connection) -> bool {
        let row = &connection.row;
        let ends = [row.local, row.peer].map(crate::amount::address);
        let pid = row.pid.to_string();
        let carriers = connection.carriers();
        [
            &row.program,
            row.reason,
            &ends[0],
            &ends[1],
            &pid,
            &carriers,
        ]
        .iter()
        .any(|text| text.contains(&self.filter))
    }

    fn order(&self, shown: &mut [&Connection]) {
        let falling = |number: fn(&Connection) -> f64| {
            move |a: &&Connection, b: &&Connection| number(b).total_cmp(&number(a))
        };
        // Equal ones stay where they are from look to look.
        shown.sort_by_key(|it| key(&it.row));
        match self.sort {
            Sort::Rate => shown.sort_by(falling(|it| it.rates.tx_bytes + it.rates.rx_bytes)),
            Sort::Messages => shown.sort_by(falling(|it| it.rates.messages)),
            Sort::Bytes => shown.sort_by(falling(|it| (it.row.tx_bytes + it.row.rx_bytes) as f64)),
            Sort::Fill => shown.sort_by(falling(|it| it.fill().unwrap_or(-1.0))),
            Sort::Age => shown.sort_by_key(|it| it.row.born),
            Sort::Program => shown.sort_by_key(|it| (&it.row.program, it.row.pid)),
            Sort::Carrier => shown.sort_by_key(|it| it.carriers()),
            Sort::Reason => shown.sort_by_key(|it| std::cmp::Reverse(it.row.reason)),
        }
        if self.is_reversed {
            shown.reverse();
        }
    }

    /// Programs, and the connections of those that are opened.
    pub fn lines<'a>(&self, model: &'a Model) -> Vec<Line<'a>> {
        let connections = self.connections(model);
        let mut programs: Vec<&Program> = model.programs.iter().collect();
        programs.sort_by_key(|it| (&it.row.program, it.row.pid));
        if self.sort != Sort::Program {
            let rate = |it: &Program| it.rates.tx_bytes + it.rates.rx_bytes;
            programs.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        }
        if self.is_reversed {
            programs.reverse();
        }
        let mut lines = Vec::new();
        for program in programs {
            let family = program.row.family;
            let own = connections.iter().filter(|it| it.row.family == family);
            let own: Vec<Line> = own.map(|it| Line::Connection(it)).collect();
            let is_shown = program.row.program.contains(&self.filter) || !own.is_empty();
            if is_shown {
                lines.push(Line::Program(program));
            }
            if self.opened.contains(&family) {
                lines.extend(own);
            }
        }
        lines
    }

    /// How many lines can be selected.
    pub fn count(&self, model: &Model) -> usize {
        match self.tab {
            Tab::Connections => self.connections(model).len(),
            Tab::Programs => self.lines(model).len(),
            Tab::Links | Tab::Totals => 0,
        }
    }

    pub fn select(&mut self, model: &Model, by: isize) {
        let last = self.count(model).saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
    }

    /// What is selected is shown in detail; a program shows its connections, or hides them.
    pub fn open(&mut self, model: &Model) {
        match self.tab {
            Tab::Connections => {
                let connections = self.connections(model);
                self.detail = connections.get(self.selected).map(|it| key(&it.row));
            }
            Tab::Programs => match self.lines(model).get(self.selected) {
                Some(Line::Connection(connection)) => self.detail = Some(key(&connection.row)),
                Some(Line::Program(program)) => self.turn(program.row.family),
                None => {}
            },
            Tab::Links | Tab::Totals => {}
        }
    }

    fn turn(&mut self, family: u64) {
        match self.opened.iter().position(|it| *it == family) {
            Some(place) => drop(self.opened.swap_remove(place)),
            None => self.opened.push(family),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Rates;
    use super::super::model::tests::row;
    use super::*;

    fn model() -> Model {
        let connection = |record, rate: f64| Connection {
            row: row(record, [80, 90 + record as u16], [0, 0]),
            rates: Rates {
                tx_bytes: rate,
                ..Rates::default()
            },
            unread: None,
        };
        let mut model = Model::default();
        model.connections = vec![connection(0, 1.0), connection(1, 3.0), connection(2, 2.0)];
        model
    }

    fn records(screen: &Screen, model: &Model) -> Vec<u32> {
        let shown = screen.connections(model);
        shown.iter().map(|it| it.row.record).collect()
    }

    #[test]
    fn the_busiest_come_first_unless_reversed() {
        let (model, mut screen) = (model(), Screen::new());
        assert_eq!(records(&screen, &model), [1, 2, 0]);
        screen.is_reversed = true;
        assert_eq!(records(&screen, &model), [0, 2, 1]);
    }

    #[test]
    fn a_filter_is_any_text_of_a_connection() {
        let (model, mut screen) = (model(), Screen::new());
        screen.filter = ":92".to_owned();
        assert_eq!(records(&screen, &model), [2]);
        screen.filter = "nothing".to_owned();
        screen.select(&model, 5);
        screen.open(&model);
        assert_eq!((screen.selected, screen.detail), (0, None));
    }
}
