//! SVG as text: escaping, and a logarithmic axis.

/// A number in an attribute.
pub fn n(value: f64) -> String {
    format!("{value:.1}")
}

pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// `anchor` is start, middle or end.
pub fn text(x: f64, y: f64, anchor: &str, class: &str, content: &str) -> String {
    let (x, y, content) = (n(x), n(y), escape(content));
    format!(r#"<text x="{x}" y="{y}" text-anchor="{anchor}" class="{class}">{content}</text>"#)
}

pub fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> String {
    let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(n);
    format!(r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#)
}

/// A logarithmic scale from values to pixels.
#[derive(Clone, Copy)]
pub struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Spans all the values, which must be above zero; none if there are none.
    pub fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Option<Axis> {
        let (mut low, mut high) = (f64::INFINITY, 0.0f64);
        for value in values.filter(|value| value.is_finite() && *value > 0.0) {
            low = low.min(value);
            high = high.max(value);
        }
        let axis = Axis {
            low,
            high,
            from,
            to,
        };
        (low <= high).then_some(axis)
    }

    /// With room at both ends.
    pub fn wider(self) -> Axis {
        let room = (self.high / self.low).powf(0.06).max(1.15);
        let (low, high) = (self.low / room, self.high * room);
        Axis { low, high, ..self }
    }

    pub fn at(&self, value: f64) -> f64 {
        let span = (self.high / self.low).ln();
        let part = match span > 0.0 {
            true => (value / self.low).ln() / span,
            false => 0.5,
        };
        self.from + part * (self.to - self.from)
    }

    /// Round numbers within, of which there are a handful.
    pub fn ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let steps: &[f64] = match decades {
            few if few < 1.2 => &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
            some if some < 2.5 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let all =
            (first..=last).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
        all.filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }

    /// Powers of `base` within.
    pub fn powers(&self, base: f64) -> Vec<f64> {
        let all = (0..64).map(|power| base.powi(power));
        all.filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis() {
        let axis = Axis::over([1.0, 100.0].into_iter(), 0.0, 200.0).expect("values");
        assert_eq!(
            [axis.at(1.0), axis.at(10.0), axis.at(100.0)],
            [0.0, 100.0, 200.0]
        );
        assert_eq!(axis.powers(10.0), [1.0, 10.0, 100.0]);
        assert!(axis.ticks().contains(&20.0));
        assert!(Axis::over([f64::NAN, 0.0].into_iter(), 0.0, 1.0).is_none());
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(escape("a<b & \"c\""), "a&lt;b &amp; &quot;c&quot;");
    }
}
