//! nginx: wrk on connections that stay, and ab with a new one for each request.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use super::text::{figure_after, number_after};
use super::{Case, Effort, Line, Reading, Scenario};
use crate::compare::bout::Bout;
use crate::compare::duel::Stop;
use crate::compare::figure::{Per, Unit, count_text};
use crate::compare::programs::need;
use crate::compare::user;
use rustix::process::Signal;

pub const KEEP_ALIVE: Scenario = Scenario {
    name: "nginx",
    title: "nginx with keep-alive, a file of 612 B (wrk)",
    needs: &[need("nginx", "nginx-light"), need("wrk", "wrk")],
    quick: true,
    between_hosts: true,
    cases: keep_alive,
    ..Scenario::DEFAULT
};

pub const SHORT: Scenario = Scenario {
    name: "nginx-short",
    title: "nginx without keep-alive, a file of 612 B (ab; connections stay on kernel TCP)",
    needs: &[need("nginx", "nginx-light"), need("ab", "apache2-utils")],
    between_hosts: true,
    cases: short,
    ..Scenario::DEFAULT
};

const FILE_SIZE: usize = 612;

/// Requests from so many connections at a time.
struct Load {
    connections: u32,
    client: Client,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Client {
    /// On connections that stay.
    Wrk,
    /// On a new one for each request.
    Ab,
}

fn keep_alive(effort: Effort) -> Vec<Box<dyn Case>> {
    let client = Client::Wrk;
    effort.cases(&[16], &[1, 16, 100], |connections| Load {
        connections,
        client,
    })
}

fn short(effort: Effort) -> Vec<Box<dyn Case>> {
    let client = Client::Ab;
    effort.cases(&[8], &[8], |connections| Load {
        connections,
        client,
    })
}

impl Load {
    fn client(&self, bout: &Bout) -> Result<Command, String> {
        let connections = self.connections;
        let (program, words) = match self.client {
            Client::Wrk => {
                let seconds = bout.whole_seconds();
                ("wrk", format!("-t1 -c {connections} -d {seconds}s"))
            }
            Client::Ab => {
                let requests = bout.count(10e3, 100.0);
                ("ab", format!("-q -c {connections} -n {requests}"))
            }
        };
        bout.client(program, &format!("{words} http://{{host}}:{{port}}/file"))
    }
}

impl Case for Load {
    fn lines(&self) -> Vec<Line> {
        let label = count_text(self.connections.into(), "connection");
        let line = Line::new(label, Unit::PerSecond("requests"), Per::Million);
        let rings = self.client == Client::Wrk;
        vec![Line { rings, ..line }]
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let folder = bout.stage.folder().join("nginx");
        let listen = bout.fill("{host}:{port}");
        let root = folder.join("www");
        let http = format!("server {{ listen {listen}; root {}; }}", root.display());
        let prepared = prepare(&folder, &http)
            .and_then(|()| fs::create_dir_all(&root))
            .and_then(|()| fs::write(root.join("file"), vec![b'x'; FILE_SIZE]));
        prepared.map_err(|error| format!("{}: {error}", folder.display()))?;
        let server = server(bout, &folder)?;
        // QUIT is its gentle end: it waits for its workers.
        let ran = bout.fight(server, self.client(bout)?, Stop::Signal(Signal::QUIT))?;
        let (rate, requests) = match self.client {
            Client::Wrk => parse_wrk(&ran.output)?,
            Client::Ab => parse_ab(&ran.output)?,
        };
        Ok(Reading::new(rate, ran, requests / 1e6))
    }
}

/// nginx with the folder that was prepared for it.
pub fn server(bout: &Bout, folder: &Path) -> Result<Command, String> {
    let mut server = bout.server("nginx", "-e stderr -p")?;
    server.arg(folder).arg("-c").arg(folder.join("nginx.conf"));
    Ok(server)
}

/// A folder with a configuration, of which `http` is what differs between scenarios.
pub fn prepare(folder: &Path, http: &str) -> std::io::Result<()> {
    let own = folder.join("own");
    fs::create_dir_all(&own)?;
    if let Some(user) = user::for_servers() {
        chown(&own, Some(user.uid), Some(user.gid))?;
    }
    let user = user::for_servers().map(|user| format!("user {} {};", user.name, user.group));
    let user = user.unwrap_or_default();
    let folder_text = folder.display();
    let config = format!(
        "daemon off; worker_processes 1; pid {folder_text}/own/nginx.pid; {user}
         events {{ worker_connections 1024; }}
         http {{
             access_log off; keepalive_requests 1000000000;
             client_body_temp_path {folder_text}/own/body; proxy_temp_path {folder_text}/own/proxy;
             fastcgi_temp_path {folder_text}/own/fastcgi; uwsgi_temp_path {folder_text}/own/uwsgi;
             scgi_temp_path {folder_text}/own/scgi;
             {http}
         }}
"
    );
    fs::write(folder.join("nginx.conf"), config)
}

/// Requests per second, and their number.
pub fn parse_wrk(text: &str) -> Result<(f64, f64), String> {
    let wrong = ["Non-2xx", "Socket errors"];
    if let Some(line) = text
        .lines()
        .find(|line| wrong.iter().any(|mark| line.contains(mark)))
    {
        return Err(format!("wrk: {}", line.trim()));
    }
    let rate = figure_after(text, "Requests/sec:")?;
    let requests = text.lines().find_map(|line| {
        let (count, _) = line.split_once(" requests in ")?;
        count.trim().parse().ok()
    });
    Ok((rate, requests.ok_or("wrk printed no number of requests")?))
}

fn parse_ab(text: &str) -> Result<(f64, f64), String> {
    match number_after(text, "Failed requests:") {
        Some(0.0) => {}
        failed => {
            return Err(format!(
                "ab: {} failed requests",
                failed.unwrap_or(f64::NAN)
            ));
        }
    }
    let rate = figure_after(text, "Requests per second:")?;
    Ok((rate, figure_after(text, "Complete requests:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_outputs() {
        let wrk = include_str!("recorded/wrk.txt");
        assert_eq!(parse_wrk(wrk), Ok((63142.63, 69437.0)));
        let ab = include_str!("recorded/ab.txt");
        assert_eq!(parse_ab(ab), Ok((18117.36, 3000.0)));
    }

    #[test]
    fn errors_are_not_figures() {
        let wrk = include_str!("recorded/wrk.txt");
        assert!(parse_wrk(&format!("{wrk}  Socket errors: connect 0, read 7\n")).is_err());
        let ab = include_str!("recorded/ab.txt")
            .replace("Failed requests:        0", "Failed requests: 3");
        assert!(parse_ab(&ab).is_err());
    }
}
