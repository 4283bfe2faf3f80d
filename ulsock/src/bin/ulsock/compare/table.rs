//! The comparison as tables for a terminal, one for each scenario, with notes where a figure needs one.

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Style};

use super::contender::{distinct, Contender};
use super::figure::digits;
use super::result::{Report, Row, Section, Skipped};
use super::series::Figure;

/// Below this share of ring bytes the reader should know.
const MOSTLY: f64 = 0.95;
/// Fewer runs than this are not worth much trust.
const ENOUGH: u32 = 5;

pub fn render(report: &Report) -> String {
    let mut text: String = report.sections.iter().map(section).collect();
    text.extend(report.skipped.iter().map(skipped));
    text + &footer(report)
}

fn footer(report: &Report) -> String {
    let runs = match report.runs {
        1 => "One run".to_owned(),
        runs => format!("Medians of {runs} runs"),
    };
    let few = match report.runs < ENOUGH {
        true => "Few runs: the machine's moods show. --full makes 5, --runs N more.\n",
        false => "",
    };
    format!(
        "{runs} of {} s, contenders in turn. \"ends\" says where kernel TCP did best; ulsock's ends are left\n\
         to the scheduler. CPU is user and system time of both ends, kernel TCP / ulsock.\n{few}",
        report.seconds
    )
}

fn skipped(skipped: &Skipped) -> String {
    let packages = skipped.packages.join(" ");
    format!(
        "{} skipped: not installed; apt install {packages}\n\n",
        skipped.name
    )
}

fn section(section: &Section) -> String {
    if section.rows.is_empty() {
        return String::new();
    }
    let cells = cells_of(section);
    let mut builder = Builder::default();
    builder.push_record(cells.header);
    for row in cells.rows {
        builder.push_record(row);
    }
    let mut table = builder.build();
    table.with(Style::rounded()).with(Alignment::right());
    for column in [0, ENDS] {
        table.modify(Columns::one(column), Alignment::left());
    }
    let notes = grouped(section.rows.iter().flat_map(notes));
    let remarks: String = section
        .remarks
        .iter()
        .map(|remark| format!("  {remark}\n"))
        .collect();
    format!(
        "{} [{}]\n{table}\n{remarks}{notes}\n",
        section.title, section.name
    )
}

const ENDS: usize = 2;
pub const RATIO: usize = 4;

/// A section's table as text.
pub struct Cells {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
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
    let header = ["", "kernel TCP", "ends", "ulsock", "ratio", &cpu];
    let header = header
        .into_iter()
        .chain(references.iter().map(|contender| contender.name()));
    let rows = section.rows.iter().map(|row| cells(row, &references, same));
    Cells {
        header: header.map(str::to_owned).collect(),
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
    cells.extend(
        references
            .iter()
            .map(|contender| row.reference(*contender).map_or("-".to_owned(), value)),
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

/// What the reader must know about a row's figures: its label, and the remark.
pub fn notes(row: &Row) -> Vec<(String, String)> {
    let mut remarks = row.problems.clone();
    if let Some(pinned) = &row.ulsock_pinned {
        let figure = row.unit.text(pinned.value);
        remarks.push(format!("with the ends on two cores ulsock gives {figure}"));
    }
    if row.rings && row.problems.is_empty() && row.ring_share < MOSTLY {
        let percent = row.ring_share * 100.0;
        remarks.push(format!(
            "only {percent:.0} % of the bytes went through a ring"
        ));
    }
    let label = |remark| (row.label.clone(), remark);
    remarks.into_iter().map(label).collect()
}

/// One line per remark, with all the labels that it is true of.
fn grouped(notes: impl Iterator<Item = (String, String)>) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    for (label, remark) in notes {
        match lines.iter_mut().find(|(_, known)| *known == remark) {
            Some((labels, _)) => {
                labels.push_str(", ");
                labels.push_str(&label);
            }
            None => lines.push((label, remark)),
        }
    }
    let lines = lines.iter();
    lines
        .map(|(labels, remark)| format!("  {labels}: {remark}\n"))
        .collect()
}
