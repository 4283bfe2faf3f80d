//! nginx before gunicorn: wrk asks nginx over TCP, and nginx asks gunicorn. wrk is without ulsock, so that only the
//! connections between the two servers differ.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Case, Effort, Line, Reading, nginx};
use crate::compare::bout::Bout;
use crate::compare::duel::{Backend, Ready, Stop};
use crate::compare::figure::{Per, Unit, count_text};
use crate::compare::programs::{Need, need};
use crate::compare::stage::preloaded;
use crate::compare::usage::End;
use crate::compare::user;
use crate::preload;
use rustix::process::Signal;

pub const NEEDS: &[Need] = &[
    need("nginx", "nginx-light"),
    need("gunicorn", "gunicorn"),
    need("wrk", "wrk"),
];

const APPLICATION: &str = include_str!("application.py");

struct Proxied {
    connections: u32,
}

pub fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    effort.cases(&[4], &[1, 4], |connections| Proxied { connections })
}

impl Proxied {
    /// One process that answers, and closes the connection after each answer, as gunicorn does by default.
    fn gunicorn(&self, bout: &Bout, folder: &Path) -> Result<Backend, String> {
        let bind = bout.either("{host}:{port}", "unix:{path}");
        let words = format!("--workers 1 --log-level warning --bind {bind}");
        let mut command = bout.server("gunicorn", &words)?;
        if let Some(user) = user::for_servers() {
            command.args(["--user", user.name, "--group", &user.group]);
        }
        command.arg("--chdir").arg(folder).arg("application:answer");
        Ok(Backend {
            command,
            ready: bout.ready(),
        })
    }

    fn wrk(&self, bout: &Bout, port: u16) -> Result<Command, String> {
        let words = format!(
            "-t1 -c {} -d {}s http://{{host}}:{port}/",
            self.connections,
            bout.whole_seconds()
        );
        let mut client = bout.command(End::Client, "wrk", &words)?;
        client.env("LD_PRELOAD", preload::without_library(preloaded()));
        Ok(client)
    }
}

impl Case for Proxied {
    fn lines(&self) -> Vec<Line> {
        let label = count_text(self.connections.into(), "connection");
        let line = Line::new(label, Unit::PerSecond("requests"), Per::Million);
        vec![Line {
            rings: false,
            ..line
        }]
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let folder = bout.stage.folder().join("gunicorn");
        let port = bout.stage.port(bout.how)?;
        let upstream = bout.fill(bout.either("{host}:{port}", "unix:{path}"));
        let listen = bout.fill(&format!("{{host}}:{port}"));
        let http = format!(
            "upstream application {{ server {upstream}; }}
             server {{ listen {listen}; location / {{ proxy_pass http://application; }} }}"
        );
        let prepared = nginx::prepare(&folder, &http)
            .and_then(|()| fs::write(folder.join("application.py"), APPLICATION));
        prepared.map_err(|error| format!("{}: {error}", folder.display()))?;
        let backend = self.gunicorn(bout, &folder)?;
        let (server, client) = (nginx::server(bout, &folder)?, self.wrk(bout, port)?);
        let stop = Stop::Signal(Signal::QUIT);
        let ran = bout.fight_before(backend, Ready::Port(port), server, client, stop)?;
        let (rate, requests) = nginx::parse_wrk(&ran.output)?;
        Ok(Reading::new(rate, ran, requests / 1e6))
    }
}
