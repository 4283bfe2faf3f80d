//! Prometheus's text format.

use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
}

#[derive(Default)]
pub struct Exposition {
    text: String,
}

/// All samples of one name.
pub struct Family<'a> {
    name: &'a str,
    text: &'a mut String,
}

impl Exposition {
    pub fn family<'a>(&'a mut self, name: &'a str, kind: Kind, about: &str) -> Family<'a> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let text = &mut self.text;
        let _ = writeln!(text, "# HELP {name} {about}\n# TYPE {name} {kind}");
        Family { name, text }
    }

    pub fn text(self) -> String {
        self.text
    }
}

impl Family<'_> {
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Self {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.text, "{}{labels} {value}", self.name);
        self
    }
}

fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_hold_any_text() {
        let mut all = Exposition::default();
        all.family("a_total", Kind::Counter, "What a is.")
            .sample(&[("program", "a\"b\\c\nd")], 3.0)
            .sample(&[], 0.25);
        let expected = "# HELP a_total What a is.\n# TYPE a_total counter\n\
            a_total{program=\"a\\\"b\\\\c\\nd\"} 3\na_total 0.25\n";
        assert_eq!(all.text(), expected);
    }
}
