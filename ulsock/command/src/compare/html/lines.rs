//! Curves: a figure over message sizes, connections or percentiles, one curve per contender.

use super::super::figure::round_text;
use super::svg::{Axis, escape, line, n, text};

const WIDTH: f64 = 580.0;
const HEIGHT: f64 = 310.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 440.0;
const TOP: f64 = 10.0;
/// Between the names of two curves.
const NAME: f64 = 17.0;
const BOTTOM: f64 = 286.0;

pub struct Curve {
    pub name: String,
    /// CSS class, which gives the colour.
    pub class: &'static str,
    pub points: Vec<(f64, f64)>,
}

pub struct Plot<'a> {
    pub title: String,
    pub curves: Vec<Curve>,
    /// Marks on the x axis; else powers of ten.
    pub marks: Option<Vec<f64>>,
    pub x_text: &'a dyn Fn(f64) -> String,
    pub y_text: &'a dyn Fn(f64) -> String,
}

impl Plot<'_> {
    /// The figure, if there is more than one point to draw.
    pub fn draw(&self) -> Option<String> {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let x = Axis::over(points().map(|point| point.0), LEFT + 8.0, RIGHT)?;
        let y = Axis::over(points().map(|point| point.1), BOTTOM, TOP)?.wider();
        if self.curves.iter().all(|curve| curve.points.len() < 2) {
            return None;
        }
        let mut body = self.axes(&x, &y);
        body.extend(self.curves.iter().map(|curve| self.curve(curve, &x, &y)));
        body.push_str(&self.names(&y));
        let title = escape(&self.title);
        Some(format!(
            "<figure><figcaption>{title}</figcaption>\
             <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">{body}</svg></figure>\n"
        ))
    }

    fn axes(&self, x: &Axis, y: &Axis) -> String {
        let marks = self.marks.clone().unwrap_or_else(|| x.powers(10.0));
        let vertical = marks.into_iter().map(|tick| {
            let at = x.at(tick);
            let label = text(at, BOTTOM + 18.0, "middle", "", &(self.x_text)(tick));
            line("grid", (at, TOP), (at, BOTTOM)) + &label
        });
        let horizontal = y.ticks().into_iter().map(|tick| {
            let at = y.at(tick);
            let label = text(
                LEFT - 8.0,
                at + 4.0,
                "end",
                "",
                &round_text(&(self.y_text)(tick)),
            );
            line("grid", (LEFT, at), (RIGHT, at)) + &label
        });
        vertical.chain(horizontal).collect()
    }

    fn curve(&self, curve: &Curve, x: &Axis, y: &Axis) -> String {
        let places: Vec<String> = curve
            .points
            .iter()
            .map(|(px, py)| format!("{} {}", n(x.at(*px)), n(y.at(*py))))
            .collect();
        let dots = curve.points.iter().map(|(px, py)| {
            let (cx, cy) = (n(x.at(*px)), n(y.at(*py)));
            let said = format!(
                "{}, {}: {}",
                curve.name,
                (self.x_text)(*px),
                (self.y_text)(*py)
            );
            let said = escape(&said);
            format!(r#"<circle cx="{cx}" cy="{cy}" r="3.5"><title>{said}</title></circle>"#)
        });
        let dots: String = dots.collect();
        let path = format!(r#"<path d="M{}"/>"#, places.join("L"));
        format!(r#"<g class="{}">{path}{dots}</g>"#, curve.class)
    }

    /// Each curve's name behind its last point, moved as far as names need room.
    fn names(&self, y: &Axis) -> String {
        let end = |curve: &Curve| curve.points.last().map(|point| y.at(point.1));
        let curves = self.curves.iter();
        let mut names: Vec<(f64, &Curve)> = curves
            .filter_map(|curve| Some((end(curve)?, curve)))
            .collect();
        names.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut lowest = BOTTOM - NAME * (names.len() as f64 - 1.0);
        let mut above = TOP - NAME;
        let mut drawn = String::new();
        for (at, curve) in names {
            above = at.min(lowest).max(above + NAME);
            lowest += NAME;
            let name = text(RIGHT + 8.0, above + 4.0, "start", "own", &curve.name);
            drawn.push_str(&format!(r#"<g class="{}">{name}</g>"#, curve.class));
        }
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>) -> Option<String> {
        let curve = Curve {
            name: "a<b".to_owned(),
            class: "kernel",
            points,
        };
        let plot = Plot {
            title: "t".to_owned(),
            curves: vec![curve],
            marks: None,
            x_text: &|x| x.to_string(),
            y_text: &|y| y.to_string(),
        };
        plot.draw()
    }

    #[test]
    fn curves() {
        let drawn = plot(vec![(1.0, 10.0), (100.0, 1.0)]).expect("a plot");
        assert_eq!(drawn.matches("<circle").count(), 2);
        assert!(drawn.contains("a&lt;b") && !drawn.contains("a<b") && !drawn.contains("NaN"));
    }

    #[test]
    fn nothing_to_draw() {
        assert!(plot(vec![]).is_none());
        assert!(plot(vec![(1.0, 1.0)]).is_none());
    }
}
