//! Bars: the figures of each line side by side, and all ratios at a glance.

use super::svg::{escape, line, n, text, Axis};

const WIDTH: f64 = 960.0;
const LABEL: f64 = 270.0;
const BAR: f64 = 16.0;
const GAP: f64 = 12.0;

pub struct Bar {
    pub name: String,
    pub class: &'static str,
    pub value: f64,
    pub text: String,
}

/// The bars of one line.
pub struct Group {
    pub label: String,
    pub bars: Vec<Bar>,
    /// `1.50x`, and whether that is good.
    pub ratio: Option<(String, bool)>,
}

/// Each group has a scale of its own: only its bars can be compared.
pub fn groups(title: &str, groups: &[Group]) -> String {
    let mut y = 6.0;
    let mut body = String::new();
    for group in groups {
        let largest = group.bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
        let middle = y + group.bars.len() as f64 * BAR / 2.0 + 4.0;
        body.push_str(&text(LABEL - 14.0, middle, "end", "strong", &group.label));
        if let Some((ratio, good)) = &group.ratio {
            let class = if *good { "good" } else { "bad" };
            body.push_str(&text(WIDTH - 8.0, middle, "end", class, ratio));
        }
        for bar in &group.bars {
            body.push_str(&one(bar, y, largest));
            y += BAR;
        }
        y += GAP;
    }
    figure(title, y, &body)
}

fn one(bar: &Bar, y: f64, largest: f64) -> String {
    const LONGEST: f64 = 400.0;
    let width = match largest > 0.0 {
        true => (bar.value / largest * LONGEST).max(1.0),
        false => 1.0,
    };
    let label = format!("{}  {}", bar.text, bar.name);
    let label = text(LABEL + width + 8.0, y + BAR - 4.0, "start", "", &label);
    let (x, y, width, height) = (n(LABEL), n(y), n(width), n(BAR - 3.0));
    let rect = format!(r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="2"/>"#);
    format!(r#"<g class="{}">{rect}{label}</g>"#, bar.class)
}

/// Label and ratio of each line, on a logarithmic scale around 1.
pub fn ratios(title: &str, rows: &[(String, f64)]) -> Option<String> {
    let values = rows.iter().map(|(_, ratio)| *ratio).chain([0.8, 1.25]);
    let axis = Axis::over(values, LABEL, WIDTH - 70.0)?.wider();
    let bottom = rows.len() as f64 * (BAR + 6.0) + 10.0;
    let mut body = String::new();
    for tick in axis.ticks() {
        body.push_str(&line("grid", (axis.at(tick), 0.0), (axis.at(tick), bottom)));
        body.push_str(&text(
            axis.at(tick),
            bottom + 16.0,
            "middle",
            "",
            &format!("{tick}x"),
        ));
    }
    for (number, (label, ratio)) in rows.iter().enumerate() {
        let y = number as f64 * (BAR + 6.0) + 8.0;
        let class = if *ratio >= 1.0 { "good" } else { "bad" };
        let (from, to) = (
            axis.at(1.0).min(axis.at(*ratio)),
            axis.at(1.0).max(axis.at(*ratio)),
        );
        let (x, width) = (n(from), n((to - from).max(1.0)));
        let (top, height) = (n(y), n(BAR));
        let rect = format!(r#"<rect x="{x}" y="{top}" width="{width}" height="{height}" rx="2"/>"#);
        body.push_str(&format!(r#"<g class="{class}">{rect}</g>"#));
        body.push_str(&text(LABEL - 14.0, y + BAR - 4.0, "end", "", label));
        body.push_str(&text(
            WIDTH - 8.0,
            y + BAR - 4.0,
            "end",
            class,
            &format!("{ratio:.2}x"),
        ));
    }
    body.push_str(&line("one", (axis.at(1.0), 0.0), (axis.at(1.0), bottom)));
    Some(figure(title, bottom + 24.0, &body))
}

fn figure(title: &str, height: f64, body: &str) -> String {
    let (title, height) = (escape(title), n(height));
    format!(
        "<figure class=\"broad\"><figcaption>{title}</figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">{body}</svg></figure>\n"
    )
}
