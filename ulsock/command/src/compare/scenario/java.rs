//! A server and a client in Java, each with one NIO selector for all its connections. They are measured warm:
//! when the virtual machine has compiled what they do.

use serde::Deserialize;

use super::source::Source;
use super::text::json_line;
use super::{Case, Effort, Line, Reading, Scenario};
use crate::compare::bout::Bout;
use crate::compare::duel::Stop;
use crate::compare::figure::{Per, Unit, count_text};
use crate::compare::programs::need;

pub const SCENARIO: Scenario = Scenario {
    name: "java",
    title: "Java NIO, round trips of 64 B by one selector at each end",
    needs: &[
        need("java", "default-jre-headless"),
        need("javac", "default-jdk-headless"),
    ],
    cases,
    ..Scenario::DEFAULT
};

const SOURCE: Source = Source {
    file: "Echo.java",
    text: include_str!("Echo.java"),
    compiler: "javac",
    words: "Echo.java",
    made: "Echo.class",
};

struct JavaEcho {
    connections: u32,
}

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    effort.cases(&[4, 32], &[1, 4, 32], |connections| JavaEcho {
        connections,
    })
}

impl Case for JavaEcho {
    fn lines(&self) -> Vec<Line> {
        let label = count_text(self.connections.into(), "connection");
        let unit = Unit::PerSecond("round trips");
        vec![Line::new(label, unit, Per::Million)]
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        // Both ends start in the work folder, where the class is.
        SOURCE.compiled(bout.stage)?;
        let server = bout.server("java", "-cp . Echo server {port}")?;
        let words = format!(
            "-cp . Echo client {{host}} {{port}} {} {} {}",
            self.connections,
            bout.stage.warm_up.as_secs_f64(),
            bout.seconds()
        );
        let mut ran = bout.fight(server, bout.client("java", &words)?, Stop::Itself)?;
        let printed: JavaPrinted = json_line(&ran.output)?;
        // The virtual machine's start is most of a short run: the programs count what their messages took.
        ran.cpu = std::time::Duration::from_secs_f64(printed.cpu_seconds);
        let rate = printed.messages / printed.seconds;
        Ok(Reading::new(rate, ran, printed.messages / 1e6))
    }
}

#[derive(Deserialize)]
struct JavaPrinted {
    messages: f64,
    seconds: f64,
    /// Of both processes, while they were measured.
    cpu_seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_output() {
        let printed: JavaPrinted = json_line(include_str!("recorded/java.txt")).expect("figures");
        assert_eq!([printed.messages, printed.seconds], [25_814.0, 0.500028]);
        let text = "Error: Could not find or load main class Echo";
        assert!(json_line::<JavaPrinted>(text).is_err());
    }
}
