//! The user's own programs: a server and a client, on kernel TCP and on ulsock.

use std::ffi::OsString;
use std::process::Command;

use super::bout::Bout;
use super::contender::{Contender, Rivals};
use super::cores::Placement;
use super::duel::{Duel, Ready, Stop};
use super::figure::{Per, Unit};
use super::find;
use super::measure::Plan;
use super::scenario::{Case, Chart, Line, Reading};
use super::stage::{How, Ran, Stage};
use super::usage::End;
use crate::failure::Failure;

/// Stands for a free port, the same one in both command lines.
const PORT: &str = "{port}";
/// Stands for the server's address.
const HOST: &str = "{host}";

/// Two command lines, and what to look for in the client's output.
pub struct Own {
    server: Vec<OsString>,
    client: Vec<OsString>,
    /// What comes before the figure, if the user says so.
    mark: Option<String>,
    /// The figure that the first run printed: the others will print it too.
    found: Option<Unit>,
}

impl Own {
    /// From `SERVER… -- CLIENT…`.
    pub fn parse(words: &[OsString], mark: Option<String>) -> Result<Own, Failure> {
        let usage = || Failure::setup("wanted: ulsock compare -- SERVER... -- CLIENT...");
        let middle = words
            .iter()
            .position(|word| word == "--")
            .ok_or_else(usage)?;
        let (server, client) = (words[..middle].to_vec(), words[middle + 1..].to_vec());
        if server.is_empty() || client.is_empty() {
            return Err(usage());
        }
        Ok(Own {
            server,
            client,
            mark,
            found: None,
        })
    }

    /// Runs once on kernel TCP: it shows whether the programs work, and whether they print a figure.
    pub fn plan(mut self, stage: &Stage) -> Result<Plan, Failure> {
        let how = How {
            contender: Contender::Kernel,
            placement: Placement::Scheduler,
        };
        let ran = self.duel(&how, stage);
        let ran = ran.map_err(|why| Failure::work(format!("a first run on kernel TCP: {why}")))?;
        let found = self.figure(&ran);
        if let (Some(mark), None) = (&self.mark, &found) {
            let message = format!("the client printed no number after \"{mark}\"");
            return Err(Failure::work(message));
        }
        self.found = found.map(|(_, unit)| unit);
        Ok(Plan {
            name: "own".to_owned(),
            title: self
                .client
                .join(std::ffi::OsStr::new(" "))
                .to_string_lossy()
                .into_owned(),
            chart: Chart::Bars,
            rivals: Rivals::TCP,
            cases: vec![Box::new(self)],
            remarks: |_| Vec::new(),
            references: false,
            ends: None,
        })
    }

    fn duel(&self, how: &How, stage: &Stage) -> Result<Ran, String> {
        let address = (stage.host(), &*stage.port(how)?.to_string());
        let here = std::env::current_dir().map_err(|error| format!("current folder: {error}"))?;
        let command = |end, words: &[OsString]| {
            let words: Vec<OsString> = words
                .iter()
                .map(|word| with_address(word, address))
                .collect();
            let mut command: Command = stage.command(how, end, &words[0]);
            command.args(&words[1..]).current_dir(&here);
            command
        };
        let server = command(End::Server, &self.server);
        let client = command(End::Client, &self.client);
        let (ready, stop) = (Ready::Listener, Stop::Either);
        stage.duel(
            how,
            Duel {
                backend: None,
                server,
                ready,
                client,
                stop,
            },
        )
    }

    fn figure(&self, ran: &Ran) -> Option<(f64, Unit)> {
        let mut texts = [&ran.output, &ran.errors].into_iter();
        texts.find_map(|text| match &self.mark {
            Some(mark) => find::after(text, mark),
            None => find::any(text),
        })
    }
}

fn with_address(word: &OsString, (host, port): (&str, &str)) -> OsString {
    match word.to_str() {
        Some(text) => text.replace(PORT, port).replace(HOST, host).into(),
        None => word.clone(),
    }
}

impl Case for Own {
    fn lines(&self) -> Vec<Line> {
        let found = self.found.iter();
        let found = found.map(|unit| Line::new("its own figure", unit.clone(), Per::Run));
        let mut lines: Vec<Line> = found.collect();
        lines.push(Line::new("wall time", Unit::Seconds, Per::Run));
        lines
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let ran = self.duel(bout.how, bout.stage)?;
        let mut values = Vec::new();
        if self.found.is_some() {
            let (value, _) = self
                .figure(&ran)
                .ok_or("client: printed no figure this time")?;
            values.push(value);
        }
        values.push(ran.wall.as_secs_f64());
        Ok(Reading {
            values,
            ..Reading::new(0.0, ran, 1.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn two_command_lines() {
        let own = Own::parse(&words("a --b 1 -- c -d -- e"), None)
            .ok()
            .expect("two");
        assert_eq!(own.server, words("a --b 1"));
        assert_eq!(own.client, words("c -d -- e"));
        for wrong in ["a b", "-- c", "a --"] {
            assert!(Own::parse(&words(wrong), None).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses() {
        let word = "{host}:{port}/x".into();
        assert_eq!(with_address(&word, ("10.0.0.1", "7")), "10.0.0.1:7/x");
    }
}
