//! One run of a case: who runs and where, the address at which the two ends meet, and their command
//! lines. These are written as in a shell, with `{host}`, `{port}` and `{path}` for the address.

use std::path::PathBuf;
use std::process::Command;

use super::duel::{Backend, Duel, Ready, Stop};
use super::programs::find_or_say;
use super::stage::{How, Ran, Stage};
use super::usage::End;

/// A free one, new in each run.
enum Address {
    /// Of the server's host.
    Port(u16),
    /// Of a Unix socket.
    Path(PathBuf),
}

pub struct Bout<'a> {
    pub how: &'a How,
    pub stage: &'a Stage,
    address: Address,
}

impl Bout<'_> {
    pub fn new<'a>(how: &'a How, stage: &'a Stage) -> Result<Bout<'a>, String> {
        let address = match how.contender.meets_at_path() {
            true => Address::Path(stage.socket()?),
            false => Address::Port(stage.port(how)?),
        };
        Ok(Bout {
            how,
            stage,
            address,
        })
    }

    pub fn over_unix(&self) -> bool {
        matches!(self.address, Address::Path(_))
    }

    /// The one of the two that fits the address.
    pub fn either<'t>(&self, tcp: &'t str, unix: &'t str) -> &'t str {
        match self.over_unix() {
            true => unix,
            false => tcp,
        }
    }

    /// `text` with the address in its place.
    pub fn fill(&self, text: &str) -> String {
        let text = text.replace("{host}", self.stage.host());
        match &self.address {
            Address::Port(port) => text.replace("{port}", &port.to_string()),
            Address::Path(path) => text.replace("{path}", &path.display().to_string()),
        }
    }

    /// A program that is installed, in the environment of its contender.
    pub fn command(&self, end: End, program: &str, words: &str) -> Result<Command, String> {
        let command = self.stage.command(self.how, end, find_or_say(program)?);
        Ok(self.with_words(command, words))
    }

    pub fn server(&self, program: &str, words: &str) -> Result<Command, String> {
        self.command(End::Server, program, words)
    }

    pub fn client(&self, program: &str, words: &str) -> Result<Command, String> {
        self.command(End::Client, program, words)
    }

    /// One of our own small programs.
    pub fn own(&self, end: End, program: &str, words: &str) -> Result<Command, String> {
        let command = self.stage.own(self.how, end, program)?;
        Ok(self.with_words(command, words))
    }

    fn with_words(&self, mut command: Command, words: &str) -> Command {
        command.args(words.split_whitespace().map(|word| self.fill(word)));
        command
    }

    /// Runs both, the client as soon as the server listens at the address.
    pub fn fight(&self, server: Command, client: Command, stop: Stop) -> Result<Ran, String> {
        self.fight_once(self.ready(), server, client, stop)
    }

    /// Somebody listens at the address.
    pub fn ready(&self) -> Ready {
        match &self.address {
            Address::Port(port) => Ready::Port(*port),
            Address::Path(path) => Ready::Path(path.clone()),
        }
    }

    /// The same with another sign that the server can be asked.
    pub fn fight_once(
        &self,
        ready: Ready,
        server: Command,
        client: Command,
        stop: Stop,
    ) -> Result<Ran, String> {
        self.run(None, ready, server, client, stop)
    }

    /// The same for a server that asks another one, which is started first.
    pub fn fight_before(
        &self,
        backend: Backend,
        ready: Ready,
        server: Command,
        client: Command,
        stop: Stop,
    ) -> Result<Ran, String> {
        self.run(Some(backend), ready, server, client, stop)
    }

    fn run(
        &self,
        backend: Option<Backend>,
        ready: Ready,
        mut server: Command,
        mut client: Command,
        stop: Stop,
    ) -> Result<Ran, String> {
        for end in [&mut server, &mut client] {
            self.stage.take_rights(end)?;
        }
        let duel = Duel {
            backend,
            server,
            ready,
            client,
            stop,
        };
        self.stage.duel(self.how, duel)
    }

    pub fn seconds(&self) -> f64 {
        self.stage.seconds.as_secs_f64()
    }

    /// For programs that know no others.
    pub fn whole_seconds(&self) -> f64 {
        self.seconds().ceil()
    }

    /// For programs that count what they do: what kernel TCP does in the time on a slow machine.
    pub fn count(&self, per_second: f64, at_least: f64) -> f64 {
        (per_second * self.seconds()).max(at_least).ceil()
    }
}
