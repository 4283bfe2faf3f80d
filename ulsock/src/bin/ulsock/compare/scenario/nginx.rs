//! nginx: wrk on connections that stay, and ab with a new one for each request.

use std::fs;
use std::path::Path;

use super::text::{figure_after, number_after};
use super::{Case, Chart, Effort, Line, Reading, Scenario};
use crate::compare::figure::{count_text, Per, Unit};
use crate::compare::programs::{find_or_say, need};
use crate::compare::stage::{Duel, How, Ready, Stage, Stop};
use crate::compare::usage::End;
use crate::compare::user;
use rustix::process::Signal;

pub const KEEP_ALIVE: Scenario = Scenario {
    name: "nginx",
    title: "nginx with keep-alive, a file of 612 B (wrk)",
    needs: &[need("nginx", "nginx-light"), need("wrk", "wrk")],
    chart: Chart::Bars,
    quick: true,
    cases: keep_alive,
};

pub const SHORT: Scenario = Scenario {
    name: "nginx-short",
    title: "nginx without keep-alive, a file of 612 B (ab; connections stay on kernel TCP)",
    needs: &[need("nginx", "nginx-light"), need("ab", "apache2-utils")],
    chart: Chart::Bars,
    quick: false,
    cases: short,
};

const FILE_SIZE: usize = 612;

struct Wrk {
    connections: u32,
}

struct Ab {
    connections: u32,
}

fn keep_alive(effort: Effort) -> Vec<Box<dyn Case>> {
    let case = |connections| -> Box<dyn Case> { Box::new(Wrk { connections }) };
    effort
        .pick(&[16], &[1, 16, 100])
        .into_iter()
        .map(case)
        .collect()
}

fn short(_: Effort) -> Vec<Box<dyn Case>> {
    vec![Box::new(Ab { connections: 8 })]
}

fn line(connections: u32) -> Line {
    let label = count_text(connections.into(), "connection");
    Line::new(label, Unit::PerSecond("requests"), Per::Million)
}

impl Case for Wrk {
    fn lines(&self) -> Vec<Line> {
        vec![line(self.connections)]
    }

    fn run(&self, how: &How, stage: &Stage) -> Result<Reading, String> {
        let mut client = stage.command(how, End::Client, find_or_say("wrk")?);
        // It knows whole seconds only.
        let seconds = stage.seconds.as_secs_f64().ceil();
        client.args(["-t1", "-c", &self.connections.to_string()]);
        client.args(["-d", &format!("{seconds}s")]);
        let ran = serve(how, stage, |url| {
            client.arg(url);
            client
        })?;
        let (rate, requests) = parse_wrk(&ran.output)?;
        Ok(Reading::new(rate, ran, requests / 1e6))
    }
}

impl Case for Ab {
    fn lines(&self) -> Vec<Line> {
        vec![line(self.connections).without_rings()]
    }

    fn run(&self, how: &How, stage: &Stage) -> Result<Reading, String> {
        // By number: what kernel TCP does in a second on a slow machine.
        let requests = (10e3 * stage.seconds.as_secs_f64()).max(100.0).ceil();
        let mut client = stage.command(how, End::Client, find_or_say("ab")?);
        client.args(["-q", "-c", &self.connections.to_string()]);
        client.args(["-n", &requests.to_string()]);
        let ran = serve(how, stage, |url| {
            client.arg(url);
            client
        })?;
        let (rate, requests) = parse_ab(&ran.output)?;
        Ok(Reading::new(rate, ran, requests / 1e6))
    }
}

/// Starts nginx, and the client with the address of a small file.
fn serve(
    how: &How,
    stage: &Stage,
    client: impl FnOnce(String) -> std::process::Command,
) -> Result<crate::compare::stage::Ran, String> {
    let port = stage.port()?;
    let folder = stage.folder().join("nginx");
    prepare(&folder, port).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut server = stage.command(how, End::Server, find_or_say("nginx")?);
    server.args(["-e", "stderr", "-p"]).arg(&folder);
    server.arg("-c").arg(folder.join("nginx.conf"));
    let client = client(format!("http://127.0.0.1:{port}/file"));
    // QUIT is its gentle end: it waits for its workers.
    let (ready, stop) = (Ready::Port(port), Stop::Signal(Signal::QUIT));
    stage.duel(
        how,
        Duel {
            server,
            ready,
            client,
            stop,
        },
    )
}

fn prepare(folder: &Path, port: u16) -> std::io::Result<()> {
    fs::create_dir_all(folder.join("www"))?;
    fs::write(folder.join("www/file"), vec![b'x'; FILE_SIZE])?;
    let user = user::for_servers().map(|user| format!("user {} {};", user.name, user.group));
    let user = user.unwrap_or_default();
    let folder_text = folder.display();
    let config = format!(
        "daemon off; worker_processes 1; pid {folder_text}/nginx.pid; {user}
         events {{ worker_connections 1024; }}
         http {{
             access_log off; keepalive_requests 1000000000;
             client_body_temp_path {folder_text}/body; proxy_temp_path {folder_text}/proxy;
             fastcgi_temp_path {folder_text}/fastcgi; uwsgi_temp_path {folder_text}/uwsgi;
             scgi_temp_path {folder_text}/scgi;
             server {{ listen 127.0.0.1:{port}; root {folder_text}/www; }}
         }}
"
    );
    fs::write(folder.join("nginx.conf"), config)
}

/// Requests per second, and their number.
fn parse_wrk(text: &str) -> Result<(f64, f64), String> {
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
            ))
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
