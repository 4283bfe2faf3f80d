//! Bars, as plain boxes so that they fit a phone too: the figures of each line side by side, and the
//! ratios of each scenario at a glance.

use super::svg::{Axis, escape, n};

pub struct Bar {
    pub name: &'static str,
    pub class: &'static str,
    pub value: f64,
    pub text: String,
    /// What it took, beside.
    pub cpu: String,
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
    let groups: String = groups.iter().map(group).collect();
    figure("broad", title, &groups)
}

fn group(group: &Group) -> String {
    let largest = group.bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let bars: String = group.bars.iter().map(|bar| one(bar, largest)).collect();
    let ratio = group.ratio.as_ref().map_or(String::new(), |(text, good)| {
        format!("<b class=\"{}\">{text}</b>", goodness(*good))
    });
    let label = escape(&group.label);
    format!(
        "<div class=\"group\"><div class=\"label\"><b>{label}</b>{ratio}</div><div>{bars}</div></div>\n"
    )
}

fn one(bar: &Bar, largest: f64) -> String {
    let percent = match largest > 0.0 {
        true => (bar.value / largest * 100.0).max(0.5),
        false => 0.5,
    };
    let (name, text, cpu) = (escape(bar.name), escape(&bar.text), escape(&bar.cpu));
    format!(
        "<div class=\"bar {}\"><span>{name}</span><i><u style=\"width:{}%\"></u></i>\
         <span>{text}</span><small>{cpu}</small></div>",
        bar.class,
        n(percent)
    )
}

pub fn goodness(good: bool) -> &'static str {
    match good {
        true => "good",
        false => "bad",
    }
}

/// A scenario, and the ratios of its lines by their labels.
pub struct Spread {
    pub name: String,
    pub ratios: Vec<(String, f64)>,
}

/// A dot for each line on a logarithmic scale around 1, a row for each scenario.
pub fn spreads(title: &str, spreads: &[Spread]) -> Option<String> {
    let all = spreads.iter().flat_map(|spread| &spread.ratios);
    let values = all.map(|(_, ratio)| *ratio).chain([0.8, 1.25]);
    let axis = Axis::over(values, 0.0, 100.0)?.wider();
    let rows: String = spreads.iter().map(|spread| row(spread, &axis)).collect();
    let ticks = axis.ticks();
    let ticks = ticks
        .iter()
        .map(|tick| mark(&axis, *tick, &format!("{tick}x")));
    let ticks: String = ticks.collect();
    let scale = format!(
        "<div class=\"spread\"><span></span><i class=\"scale\">{ticks}</i><span></span></div>"
    );
    Some(figure("broad", title, &format!("{rows}{scale}")))
}

fn row(spread: &Spread, axis: &Axis) -> String {
    let ratios = || spread.ratios.iter().map(|(_, ratio)| *ratio);
    let (least, most) = (
        ratios().fold(f64::MAX, f64::min),
        ratios().fold(0.0, f64::max),
    );
    let dots = spread.ratios.iter().map(|(label, ratio)| {
        let (left, class) = (n(axis.at(*ratio)), goodness(*ratio >= 0.97));
        let said = escape(&format!("{label}: {ratio:.2}x"));
        format!("<u class=\"{class}\" style=\"left:{left}%\" title=\"{said}\"></u>")
    });
    let dots: String = dots.collect();
    let text = match spread.ratios.len() {
        1 => format!("{least:.2}x"),
        _ => format!("{least:.2}x to {most:.1}x"),
    };
    format!(
        "<div class=\"spread\"><span>{}</span><i>{}{dots}</i><span class=\"{}\">{text}</span></div>\n",
        escape(&spread.name),
        mark(axis, 1.0, ""),
        goodness(least >= 0.97)
    )
}

fn mark(axis: &Axis, at: f64, text: &str) -> String {
    format!("<s style=\"left:{}%\">{text}</s>", n(axis.at(at)))
}

fn figure(class: &str, title: &str, body: &str) -> String {
    let title = escape(title);
    format!("<figure class=\"{class}\"><figcaption>{title}</figcaption>\n{body}</figure>\n")
}
