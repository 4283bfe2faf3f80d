//! The comparison as tables for a terminal, one for each scenario, with notes where a figure needs one.
//! What does not fit the terminal's width goes below.

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Style};

use super::contender::{Contender, distinct};
use super::figure::digits;
use super::notes;
use super::result::{Report, Row, Section, Skipped};
use super::series::Figure;
use super::verdict::Verdict;

/// Fewer runs than this are not worth much trust.
const ENOUGH: u32 = 5;

pub fn render(report: &Report) -> String {
    let width = width();
    let sections = report.sections.iter();
    let mut text: String = sections.map(|of| section(of, width)).collect();
    text.extend(report.skipped.iter().map(skipped));
    if let Some(verdict) = Verdict::of(report) {
        text += &format!("{}\n", wrapped(&verdict.text(), width, ""));
    }
    text + &footer(report, width)
}

/// The terminal's; without one, lines are as long as they are.
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
    let columns = size.ok().map(|size| usize::from(size.ws_col));
    columns.filter(|columns| *columns > 0).unwrap_or(usize::MAX)
}

fn footer(report: &Report, width: usize) -> String {
    let few = match report.runs < ENOUGH {
        true => " Few runs: the machine's moods show. --full makes 5, --runs N more.",
        false => "",
    };
    let text = format!(
        "{}, contenders in turn. \"ends\" says where the kernel did best; ulsock's ends are left \
         to the scheduler, unless it stays on the kernel. CPU is user and system time of both ends, kernel / ulsock.{few}",
        report.effort()
    );
    wrapped(&text, width, "")
}

fn skipped(skipped: &Skipped) -> String {
    let packages = skipped.packages.join(" ");
    format!(
        "{} skipped: not installed; apt install {packages}\n\n",
        skipped.name
    )
}

fn section(section: &Section, width: usize) -> String {
    if section.rows.is_empty() {
        return String::new();
    }
    let title = wrapped(&format!("{} [{}]", section.title, section.name), width, "");
    let notes = notes::of(section);
    let notes: String = notes
        .iter()
        .map(|note| wrapped(note, width, "  "))
        .collect();
    format!("{title}{}{notes}\n", tables(cells_of(section), width))
}

/// One table, or two if the references do not fit beside the rest.
fn tables(cells: Cells, width: usize) -> String {
    let whole = drawn(&cells);
    let fits = whole.lines().all(|line| line.chars().count() <= width);
    if fits || cells.header.len() <= REFERENCES {
        return whole;
    }
    let (rest, references) = cells.split();
    drawn(&rest) + &drawn(&references)
}

fn drawn(cells: &Cells) -> String {
    let mut builder = Builder::default();
    builder.push_record(&cells.header);
    for row in &cells.rows {
        builder.push_record(row);
    }
    let mut table = builder.build();
    table.with(Style::rounded()).with(Alignment::right());
    for (column, title) in cells.header.iter().enumerate() {
        if column == 0 || title == ENDS {
            table.modify(Columns::one(column), Alignment::left());
        }
    }
    format!("{table}\n")
}

/// The text in lines of at most `width`, each with this indent; further ones are indented more.
fn wrapped(text: &str, width: usize, indent: &str) -> String {
    let mut lines = vec![indent.to_owned()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is one");
        let is_empty = last.trim().is_empty();
        if !is_empty && last.chars().count() + 1 + word.chars().count() > width {
            lines.push(format!("{indent}{indent}{word}"));
        } else {
            last.push_str(if is_empty { "" } else { " " });
            last.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

const ENDS: &str = "ends";
pub const RATIO: usize = 4;
/// The first column of references.
const REFERENCES: usize = 6;

/// A section's table as text.
pub struct Cells {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Cells {
    /// All but the references, and these.
    fn split(mut self) -> (Cells, Cells) {
        let cut = |row: &mut Vec<String>| {
            let mut references = vec![row[0].clone()];
            references.extend(row.drain(REFERENCES..));
            references
        };
        let references = Cells {
            header: cut(&mut self.header),
            rows: self.rows.iter_mut().map(cut).collect(),
        };
        (self, references)
    }
}

pub fn cells_of(section: &Section) -> Cells {
    let references = references_of(section);
    let mut units = section.rows.iter().map(|row| row.cpu_seconds_per);
    let first = units.next().unwrap_or_default();
    let same = units.all(|unit| unit == first);
    let cpu = match same {
        true => format!("CPU s per {first}"),
        false => "CPU s".to_owned(),
    };
    let [kernel, ulsock] = section.rivals.both().map(Contender::name);
    let header = ["", kernel, ENDS, ulsock, "ratio", &cpu];
    let names = references.iter().map(|contender| contender.name());
    let rows = section.rows.iter().map(|row| cells(row, &references, same));
    Cells {
        header: header.into_iter().chain(names).map(str::to_owned).collect(),
        rows: rows.collect(),
    }
}

fn references_of(section: &Section) -> Vec<Contender> {
    let references = section.rows.iter().flat_map(|row| &row.references);
    distinct(references.map(|figure| figure.contender))
}

/// `same`: the header says what CPU time is per.
fn cells(row: &Row, references: &[Contender], same: bool) -> Vec<String> {
    let value = |figure: &Figure| row.unit.text(figure.value);
    let cpu = |figure: Option<&Figure>| {
        figure.map_or("-".to_owned(), |figure| digits(figure.cpu_seconds))
    };
    let kernel = row.kernel.as_ref();
    let used = row.used();
    let per = match same {
        true => String::new(),
        false => format!(" per {}", row.cpu_seconds_per),
    };
    let mut cells = vec![
        row.label.clone(),
        kernel.map_or("failed".to_owned(), value),
        kernel.map_or("", |figure| figure.ends).to_owned(),
        used.map_or_else(|| unused(row), value),
        row.ratio
            .map_or("-".to_owned(), |ratio| format!("{ratio:.2}x")),
        format!("{} / {}{per}", cpu(kernel), cpu(used)),
    ];
    let references = references.iter();
    cells.extend(
        references.map(|contender| row.reference(*contender).map_or("-".to_owned(), value)),
    );
    cells
}

/// What stands in place of ulsock's figure: one of kernel TCP under ulsock's name would mislead.
fn unused(row: &Row) -> String {
    match row.ulsock {
        Some(_) => "not used".to_owned(),
        None => "failed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_in_lines() {
        assert_eq!(wrapped("one two three", 9, " "), " one two\n  three\n");
        assert_eq!(wrapped("one", 2, ""), "one\n");
    }

    #[test]
    fn references_go_below_where_they_do_not_fit() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let cells = || Cells {
            header: words("- kernel ends ulsock ratio CPU Unix ring"),
            rows: vec![words("64 1 two 2 3 4 5 6")],
        };
        assert_eq!(tables(cells(), 120).lines().count(), 5);
        let narrow = tables(cells(), 50);
        assert_eq!(narrow.lines().count(), 10);
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 50),
            "{narrow}"
        );
    }
}
