//! The comparison as two tables for a terminal, with notes where a figure needs one.

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Style};

use super::result::{Figure, Report, Row};
use super::scenario::Kind;

/// Below this share of ring bytes the reader should know.
const MOSTLY: f64 = 0.95;

pub fn render(report: &Report) -> String {
    let mut text = String::new();
    text.push_str(&section(
        report,
        Kind::PingPong,
        "Round trips, one at a time (mean time)",
        "CPU s per million",
    ));
    text.push_str(&section(
        report,
        Kind::Stream,
        "Stream, one way",
        "CPU s per GB",
    ));
    let runs = match report.runs {
        1 => "One run".to_owned(),
        runs => format!("Medians of {runs} runs"),
    };
    text + &format!(
        "{runs} of {} s, kernel TCP and ulsock in turn. \"ends\" says where kernel TCP did best;\n\
         ulsock's ends are left to the scheduler. CPU is user and system time of both processes.\n",
        report.seconds
    )
}

fn section(report: &Report, kind: Kind, title: &str, cpu: &str) -> String {
    let rows: Vec<&Row> = report
        .rows
        .iter()
        .filter(|row| row.scenario.kind == kind)
        .collect();
    let mut builder = Builder::default();
    builder.push_record(
        [
            "message",
            "kernel TCP",
            "ends",
            "ulsock",
            "ratio",
            &format!("{cpu}: kernel"),
            "ulsock",
        ]
        .map(str::to_owned),
    );
    for row in &rows {
        builder.push_record(cells(row));
    }
    let mut table = builder.build();
    table.with(Style::rounded()).with(Alignment::right());
    table.modify(Columns::one(2), Alignment::left());
    let notes = grouped(rows.iter().flat_map(|row| notes(row)));
    format!("{title}\n{table}\n{notes}\n")
}

fn cells(row: &Row) -> [String; 7] {
    let value = |figure: &Figure| row.scenario.figure_text(figure.value);
    let cpu = |figure: &Figure| format!("{:.2}", figure.cpu_seconds);
    // A figure of kernel TCP under ulsock's name would mislead.
    let used = row.ulsock.as_ref().filter(|_| row.ratio.is_some());
    [
        row.scenario.size_name(),
        value(&row.kernel),
        row.kernel.ends.to_owned(),
        used.map_or_else(|| unused(row), value),
        row.ratio
            .map_or("-".to_owned(), |ratio| format!("{ratio:.2}x")),
        cpu(&row.kernel),
        used.map_or("-".to_owned(), cpu),
    ]
}

/// What stands in place of ulsock's figure.
fn unused(row: &Row) -> String {
    match row.ulsock {
        Some(_) => "not used".to_owned(),
        None => "failed".to_owned(),
    }
}

/// What the reader must know about a row's figures: its size, and the remark.
fn notes(row: &Row) -> Vec<(String, String)> {
    let mut remarks = Vec::new();
    remarks.extend(row.problem.clone());
    if let Some(pinned) = &row.ulsock_pinned {
        let figure = row.scenario.figure_text(pinned.value);
        remarks.push(format!("with the ends on two cores ulsock gives {figure}"));
    }
    if row.problem.is_none() && row.ring_share < MOSTLY {
        let percent = row.ring_share * 100.0;
        remarks.push(format!(
            "only {percent:.0} % of the bytes went through a ring"
        ));
    }
    let size = row.scenario.size_name();
    remarks
        .into_iter()
        .map(|remark| (size.clone(), remark))
        .collect()
}

/// One line per remark, with all the sizes that it is true of.
fn grouped(notes: impl Iterator<Item = (String, String)>) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    for (size, remark) in notes {
        match lines.iter_mut().find(|(_, known)| *known == remark) {
            Some((sizes, _)) => {
                sizes.push_str(", ");
                sizes.push_str(&size);
            }
            None => lines.push((size, remark)),
        }
    }
    lines
        .iter()
        .map(|(sizes, remark)| format!("  {sizes}: {remark}\n"))
        .collect()
}
