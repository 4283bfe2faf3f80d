//! A transfer between two hosts that goes on while something happens to them (see `src/bin/carry.rs`).

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use serde::Deserialize;
use tests::hosts::Hosts;
use tests::program::Running;

/// A long stream takes some time.
const LIMIT: u64 = 1800;

/// What each end receives of a long stream; `TESTS_HOSTS_GB` says how many gigabytes instead.
pub fn long() -> u64 {
    let wish = std::env::var("TESTS_HOSTS_GB").ok();
    let wish = wish.and_then(|text| text.parse::<u64>().ok());
    wish.map_or(100_000_000, |gigabytes| gigabytes * 1_000_000_000)
}

/// How one connection of an end ended.
#[derive(Debug, Deserialize)]
pub struct Ended {
    pub sent: u64,
    pub received: u64,
    pub end: String,
}

pub struct Transfer {
    server: Running,
    client: Running,
    logs: [PathBuf; 2],
}

impl Transfer {
    /// From the second host to the first; `options` are for both ends. Something has been received.
    pub fn start(hosts: &Hosts, options: &str) -> Self {
        let logs = [0, 1].map(|host| hosts.folder().join(format!("carried-{host}")));
        let end = |host: usize, role: &str| {
            let program = hosts.own(host, "carry").args(role).args(options);
            let program = program.limit(LIMIT);
            let log = logs[host].display();
            program.args(&format!("port=7000 log={log}"))
        };
        let server = end(0, "listen host=::").start().listening(7000);
        let address = format!("host={}", hosts.host(0).address());
        let client = end(1, "connect").args(&address).piped().start();
        let mut transfer = Self {
            server,
            client,
            logs,
        };
        transfer.moves(1_000_000);
        transfer
    }

    /// Waits until each end has received so many bytes more.
    pub fn moves(&mut self, bytes: u64) {
        let before: Vec<u64> = self.logs.iter().map(received).collect();
        let logs = &self.logs;
        self.client.until("both ends receive more", |_| {
            let mut now = logs.iter().map(received).zip(&before);
            now.all(|(now, before)| now >= before + bytes)
        });
    }

    /// Ends it: every byte that was sent has come.
    pub fn finish(self) {
        let (client, server) = self.results();
        for (client, server) in client.iter().zip(&server) {
            let seen = (&client.end, &server.end, client.sent, server.sent);
            let wanted = ("end", "end", server.received, client.received);
            assert_eq!((seen.0.as_str(), seen.1.as_str(), seen.2, seen.3), wanted);
        }
    }

    /// Ends it: what each end says of its connections.
    pub fn results(self) -> (Vec<Ended>, Vec<Ended>) {
        let read = |running: Running| {
            let output = running.succeed();
            serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"))
        };
        (read(self.client), read(self.server))
    }

    /// The first host's end falls silent: all that the other sends is acknowledged, and nothing comes back.
    pub fn silence(&self) {
        self.server.signal(libc::SIGSTOP);
        // For what was under way.
        sleep(Duration::from_millis(300));
    }

    /// Kills the first host's end; what the other says of its connections.
    pub fn survivor(self) -> Vec<Ended> {
        self.server.stop(libc::SIGKILL);
        let output = self.client.succeed();
        serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"))
    }
}

fn received(log: &PathBuf) -> u64 {
    let bytes = fs::read(log).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}
