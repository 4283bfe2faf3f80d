//! What stands below a table: what its rows say together, and what the reader must know about them.

use super::result::{Row, Section};

/// Below this share of ring bytes the reader should know.
const MOSTLY: f64 = 0.95;

pub fn of(section: &Section) -> Vec<String> {
    let mut notes = section.remarks.clone();
    notes.extend(problems(&section.rows));
    notes.extend(listed(
        &section.rows,
        "Better with ulsock's ends on two cores",
        pinned,
    ));
    notes.extend(listed(
        &section.rows,
        "Not all bytes went through a ring",
        ring_share,
    ));
    notes
}

/// Each once, with all the labels that it is true of.
fn problems(rows: &[Row]) -> Vec<String> {
    let mut known: Vec<(&String, Vec<&str>)> = Vec::new();
    for row in rows {
        for problem in row.problems.iter().chain(&row.left_on_kernel) {
            match known.iter_mut().find(|(text, _)| *text == problem) {
                Some((_, labels)) => labels.push(&row.label),
                None => known.push((problem, vec![&row.label])),
            }
        }
    }
    let known = known.iter();
    known
        .map(|(problem, labels)| format!("{}: {problem}", labels.join(", ")))
        .collect()
}

/// One note for all the rows that have something to say.
fn listed(rows: &[Row], title: &str, of: fn(&Row) -> Option<String>) -> Option<String> {
    let said = rows.iter().filter_map(|row| {
        let text = of(row)?;
        Some(match row.label.contains(',') {
            true => format!("{}: {text}", row.label),
            false => format!("{} {text}", row.label),
        })
    });
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| format!("{title}: {}.", said.join("; ")))
}

fn pinned(row: &Row) -> Option<String> {
    let pinned = row.ulsock_pinned.as_ref()?;
    Some(row.unit.text(pinned.value))
}

fn ring_share(row: &Row) -> Option<String> {
    let told = row.rings
        && row.problems.is_empty()
        && row.left_on_kernel.is_none()
        && row.ring_share < MOSTLY;
    told.then(|| format!("{:.0} %", row.ring_share * 100.0))
}
