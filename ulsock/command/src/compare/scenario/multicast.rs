//! A message to each of several receivers: to a group, by the native library, beside a send to each over kernel TCP.

use serde::Deserialize;

use super::{Case, Chart, Effort, Line, Reading, Scenario};
use crate::compare::bout::Bout;
use crate::compare::contender::Contender;
use crate::compare::cores::Placement;
use crate::compare::figure::{Per, Unit, count_text};
use crate::compare::stage::preloaded;
use crate::compare::usage::End;
use crate::preload;

pub const SCENARIO: Scenario = Scenario {
    name: "multicast",
    title: "Messages of 64 B, each to all receivers: to a group of the native library, and to each over kernel TCP",
    chart: Chart::Connections,
    cases,
    ..Scenario::DEFAULT
};

const QUICK: [u64; 1] = [8];
const FULL: [u64; 3] = [2, 8, 32];

struct Multicast {
    receivers: u64,
}

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    effort.cases(&QUICK, &FULL, |receivers| Multicast { receivers })
}

#[derive(Deserialize)]
struct Printed {
    messages_per_s: f64,
    total_messages: u64,
}

impl Case for Multicast {
    fn lines(&self) -> Vec<Line> {
        let label = count_text(self.receivers, "receiver");
        let line = Line::new(label, Unit::PerSecond("messages"), Per::Million);
        vec![Line {
            // What members send goes by a ring for all, and not over their connections.
            rings: false,
            ..line.at(self.receivers)
        }]
    }

    /// The sender starts the receivers: all where the scheduler puts them.
    fn placements(&self) -> Vec<Placement> {
        vec![Placement::Scheduler]
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let kind = match bout.how.contender {
            Contender::Kernel => "sockets",
            _ => "group",
        };
        let (receivers, seconds) = (self.receivers, bout.seconds());
        let words = format!("--only {kind} --members {receivers} --seconds {seconds}");
        let mut command = bout.own(End::Client, "multicast", &words)?;
        // It has ulsock in it.
        command.env("LD_PRELOAD", preload::without_library(preloaded()));
        let ran = bout.stage.solo(bout.how, command)?;
        let printed: Printed =
            serde_json::from_str(&ran.output).map_err(|error| format!("multicast: {error}"))?;
        let work = printed.total_messages as f64 / 1e6;
        Ok(Reading::new(printed.messages_per_s, ran, work))
    }
}
