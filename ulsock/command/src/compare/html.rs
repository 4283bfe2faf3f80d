//! The comparison as one page that needs nothing else: tables, and plots as inline SVG. It follows
//! the reader's choice of a light or dark page.

mod bars;
mod lines;
mod svg;

use super::contender::{Contender, distinct};
use super::figure::{Per, Unit, digits, round_text, size_text};
use super::notes;
use super::result::{Report, Row, Section};
use super::scenario::Chart;
use super::series::Figure;
use super::table;
use super::verdict::Verdict;
use bars::{Bar, Group, Spread};
use lines::{Curve, Plot};
use svg::escape;

const STYLE: &str = include_str!("html/style.css");

pub fn page(report: &Report) -> String {
    let host = &report.host;
    let sections: String = report.sections.iter().map(section).collect();
    let skipped: String = report.skipped.iter().map(skipped).collect();
    let profile = match host.profile.as_str() {
        "" => String::new(),
        name => format!(", profile {name}"),
    };
    let about = format!(
        "{}, {} CPUs ({}), ulsock {}{}. {}, contenders in turn. The kernel is taken at its \
         best: with the ends left to the scheduler, or on two cores (with Unix sockets also on one). ulsock's ends \
         are left to the scheduler, unless it stays on the kernel.",
        host.system,
        host.cpus,
        host.cpu,
        host.ulsock,
        profile,
        report.effort()
    );
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>ulsock against the kernel</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>ulsock against the kernel</h1>\n<p class=\"note\">{}</p>\n{}{sections}{skipped}</body>\n</html>\n",
        escape(&about),
        glance(report)
    )
}

/// The verdict, and the ratios of all scenarios in one picture.
fn glance(report: &Report) -> String {
    let Some(verdict) = Verdict::of(report) else {
        return String::new();
    };
    let spreads: Vec<Spread> = report.sections.iter().filter_map(spread).collect();
    let title = "How many times better than the kernel: a dot for each line";
    let spreads = bars::spreads(title, &spreads).unwrap_or_default();
    format!("{}{spreads}", cards(&verdict))
}

/// The figures of the verdict, each as a card.
fn cards(verdict: &Verdict) -> String {
    let compared = verdict.compared;
    let least = format!("the least: {}", verdict.worst.0);
    let cpu = format!("with less CPU time{}", verdict.other_cpu());
    let cards = [
        (
            format!("{} of {compared}", verdict.speed.better),
            "faster than the kernel",
            true,
        ),
        (
            format!("{} of {compared}", verdict.speed.worse),
            "slower",
            verdict.speed.worse == 0,
        ),
        (
            format!("{:.1}x", verdict.median),
            "median ratio",
            verdict.median >= 1.0,
        ),
        (
            format!("{:.2}x", verdict.worst.1),
            &least,
            verdict.worst.1 >= 0.97,
        ),
        (
            format!("{} of {compared}", verdict.cpu.better),
            &cpu,
            verdict.cpu.worse == 0,
        ),
    ];
    let cards = cards.map(|(figure, what, good)| {
        let (class, what) = (bars::goodness(good), escape(what));
        format!("<div><b class=\"{class}\">{figure}</b><span>{what}</span></div>\n")
    });
    format!("<div class=\"cards\">\n{}</div>\n", cards.concat())
}

fn spread(section: &Section) -> Option<Spread> {
    let ratio = |row: &Row| Some((row.label.clone(), row.ratio?));
    let ratios: Vec<(String, f64)> = section.rows.iter().filter_map(ratio).collect();
    let name = section.name.clone();
    (!ratios.is_empty()).then_some(Spread { name, ratios })
}

fn skipped(skipped: &super::result::Skipped) -> String {
    let packages = skipped.packages.join(" ");
    format!(
        "<p class=\"note\">{} skipped: apt install {packages}</p>\n",
        skipped.name
    )
}

fn section(section: &Section) -> String {
    let plots = match section.chart {
        Chart::Sizes => curves(section, &|x| size_text(x as u64), 16.0),
        Chart::Connections => curves(section, &|x| round_text(&digits(x)), 10.0),
        Chart::Bars => groups(section),
    };
    let percentiles = percentiles(section).unwrap_or_default();
    let notes = notes::of(section);
    let notes: String = notes
        .iter()
        .map(|note| format!("<li>{}</li>\n", escape(note)))
        .collect();
    // Bars have their figures beside them already.
    let table = match section.chart {
        Chart::Bars => format!(
            "<details><summary>As a table</summary>{}</details>\n",
            html_table(section)
        ),
        Chart::Sizes | Chart::Connections => html_table(section),
    };
    format!(
        "<h2>{}</h2>\n<div class=\"plots\">\n{plots}{percentiles}</div>\n{table}<ul>\n{notes}</ul>\n",
        escape(&section.title)
    )
}

/// All figures of a row: kernel TCP, ulsock, others.
fn figures(row: &Row) -> Vec<&Figure> {
    let ours = row.kernel.iter().chain(row.used());
    ours.chain(&row.references).collect()
}

fn class(contender: Contender) -> &'static str {
    match contender {
        Contender::Kernel => "kernel",
        Contender::Ulsock => "ulsock",
        Contender::Unix => "unix",
        Contender::UlsockUnix => "ulsock-unix",
        Contender::Mpi { single_copy: true } => "mpi",
        Contender::Mpi { single_copy: false } => "mpi-copies",
        Contender::Ring => "ring",
        Contender::Chain => "chain",
        Contender::Messages => "messages",
        Contender::Ucx => "ucx",
    }
}

/// A plot of the times and one of the rates, as far as there are such lines.
fn curves(section: &Section, x_text: &dyn Fn(f64) -> String, base: f64) -> String {
    let times = plot(
        section,
        &Unit::Micros,
        "Time (less is better)",
        x_text,
        base,
    );
    let rates = plot(
        section,
        &Unit::Bytes,
        "Bandwidth (more is better)",
        x_text,
        base,
    );
    let cpu = cpu_plot(section, x_text, base);
    [times, rates, cpu].into_iter().flatten().collect()
}

/// What each contender took, if all lines have it per the same.
fn cpu_plot(section: &Section, x_text: &dyn Fn(f64) -> String, base: f64) -> Option<String> {
    let rows: Vec<&Row> = section.rows.iter().collect();
    let per = rows.first()?.cpu_seconds_per;
    if per == Per::Run.name() || rows.iter().any(|row| row.cpu_seconds_per != per) {
        return None;
    }
    let title = format!("CPU time of both ends, per {per} (less is better)");
    draw(
        &title,
        &rows,
        |figure| figure.cpu_seconds,
        x_text,
        base,
        &|y| format!("{} s", digits(y)),
    )
}

fn plot(
    section: &Section,
    unit: &Unit,
    title: &str,
    x_text: &dyn Fn(f64) -> String,
    base: f64,
) -> Option<String> {
    let rows = section
        .rows
        .iter()
        .filter(|row| row.unit.name() == unit.name());
    let rows: Vec<&Row> = rows.collect();
    let y_text = |y: f64| unit.text(y);
    draw(title, &rows, |figure| figure.value, x_text, base, &y_text)
}

/// A curve for each contender, with marks at the powers of `base`.
fn draw(
    title: &str,
    rows: &[&Row],
    value: fn(&Figure) -> f64,
    x_text: &dyn Fn(f64) -> String,
    base: f64,
    y_text: &dyn Fn(f64) -> String,
) -> Option<String> {
    let marks = (0..16).map(|power| base.powi(power));
    let within = |mark: &f64| {
        let x = || rows.iter().filter_map(|row| row.x);
        x().any(|x| x <= *mark) && x().any(|x| x >= *mark)
    };
    let contenders = contenders(rows).into_iter();
    let plot = Plot {
        title: title.to_owned(),
        curves: contenders
            .map(|contender| curve(rows, contender, value))
            .collect(),
        marks: Some(marks.filter(within).collect()),
        x_text,
        y_text,
    };
    plot.draw()
}

fn contenders(rows: &[&Row]) -> Vec<Contender> {
    let figures = rows.iter().flat_map(|row| figures(row));
    distinct(figures.map(|figure| figure.contender))
}

fn curve(rows: &[&Row], contender: Contender, value: fn(&Figure) -> f64) -> Curve {
    let point = |row: &&Row| {
        let figure = figures(row)
            .into_iter()
            .find(|figure| figure.contender == contender)?;
        Some((row.x?, value(figure)))
    };
    Curve {
        name: contender.name().to_owned(),
        class: class(contender),
        points: rows.iter().filter_map(point).collect(),
    }
}

fn groups(section: &Section) -> String {
    let group = |row: &Row| Group {
        label: row.label.clone(),
        bars: figures(row)
            .into_iter()
            .map(|figure| bar(row, figure))
            .collect(),
        ratio: row
            .ratio
            .map(|ratio| (format!("{ratio:.2}x"), ratio >= 1.0)),
    };
    let rows: Vec<Group> = section.rows.iter().map(group).collect();
    let lower = section
        .rows
        .iter()
        .filter(|row| row.unit.lower_is_better())
        .count();
    let title = match lower {
        0 => "More is better",
        all if all == section.rows.len() => "Less is better",
        _ => "Times: less is better; rates: more is better",
    };
    bars::groups(title, &rows)
}

fn bar(row: &Row, figure: &Figure) -> Bar {
    Bar {
        name: figure.contender.name(),
        class: class(figure.contender),
        value: figure.value,
        text: row.unit.text(figure.value),
        cpu: format!(
            "{} CPU s per {}",
            digits(figure.cpu_seconds),
            row.cpu_seconds_per
        ),
    }
}

/// The percentile curves of one line: of messages of 64 B if there are such, else of the first.
fn percentiles(section: &Section) -> Option<String> {
    let told = |row: &&Row| {
        row.kernel
            .as_ref()
            .is_some_and(|figure| !figure.percentiles.is_empty())
    };
    let mut rows = section.rows.iter().filter(told);
    let first = rows.clone().next()?;
    let row = rows.find(|row| row.x == Some(64.0)).unwrap_or(first);
    // Over the number of trips of which one is as slow: 99 % is one in a hundred.
    let rarity = |percent: f64| 100.0 / (100.0 - percent);
    let curves = figures(row).into_iter().map(|figure| Curve {
        name: figure.contender.name().to_owned(),
        class: class(figure.contender),
        points: figure
            .percentiles
            .iter()
            .map(|(percent, us)| (rarity(*percent), *us))
            .collect(),
    });
    let marks = [50.0, 90.0, 99.0, 99.9, 99.99].map(rarity).to_vec();
    let plot = Plot {
        title: format!("Percentiles, {} (less is better)", row.label),
        curves: curves.collect(),
        marks: Some(marks),
        x_text: &|x| round_text(&format!("{:.2} %", 100.0 - 100.0 / x)),
        y_text: &|y| Unit::Micros.text(y),
    };
    plot.draw()
}

fn html_table(section: &Section) -> String {
    let table = table::cells_of(section);
    let cell = |tag: &str, text: &String| format!("<{tag}>{}</{tag}>", escape(text));
    let header: String = table.header.iter().map(|text| cell("th", text)).collect();
    let rows = table.rows.iter().zip(&section.rows).map(|(cells, row)| {
        let cells = cells
            .iter()
            .enumerate()
            .map(|(column, text)| match (column, row.ratio) {
                (table::RATIO, Some(ratio)) => {
                    let class = if ratio >= 1.0 { "good" } else { "bad" };
                    format!("<td class=\"{class}\">{}</td>", escape(text))
                }
                _ => cell("td", text),
            });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    });
    let rows: String = rows.collect();
    format!(
        "<div class=\"wide\"><table><thead><tr>{header}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::verdict::tests::verdict;
    use super::*;

    #[test]
    fn the_card_of_cpu_time_counts_less_as_much_and_more() {
        let page = cards(&verdict(&[2.0; 4], &[4.0, 1.0 / 1.02, 0.9, 1.5]));
        let card =
            "<b class=\"bad\">2 of 4</b><span>with less CPU time, as much in 1, more in 1</span>";
        assert!(page.contains(card), "{page}");
        let page = cards(&verdict(&[2.0; 2], &[4.0, 1.0 / 1.02]));
        let card = "<b class=\"good\">1 of 2</b><span>with less CPU time, as much in 1</span>";
        assert!(page.contains(card), "{page}");
    }
}
