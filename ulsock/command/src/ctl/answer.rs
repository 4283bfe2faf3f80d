//! What has become of an order, as text or as JSON.

use serde::Serialize;
use sockets::observe::Endpoint;
use sockets::orders::{Order, Standing};

use super::targets::{Connection, Targets};
use crate::amount::address;
use crate::amount::endpoint_in_json;

#[derive(Serialize)]
pub struct Answer {
    /// `demote`, `promote`, `off` or `on`.
    order: &'static str,
    programs: usize,
    /// That have been ordered, and live.
    connections: usize,
    /// That are where they were ordered.
    followed: usize,
    /// That follow at their next call.
    idle: usize,
    /// That have seen the order, and are not there yet.
    under_way: usize,
    /// That are the kernel's for good, or as long as something else keeps them there.
    cannot: usize,
    /// Those that have not followed.
    left: Vec<Left>,
}

#[derive(Serialize)]
struct Left {
    pid: u32,
    program: String,
    #[serde(serialize_with = "endpoint_in_json")]
    local: Option<Endpoint>,
    #[serde(serialize_with = "endpoint_in_json")]
    peer: Option<Endpoint>,
    state: State,
    reason: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    Idle,
    UnderWay,
    /// For good.
    Never,
    /// Its program, or the other end's, is off.
    Off,
}

impl Answer {
    pub fn of(targets: &Targets, order: Order) -> Answer {
        let mut answer = Answer {
            order: match (order, targets.are_programs()) {
                (Order::Kernel, false) => "demote",
                (Order::Free, false) => "promote",
                (Order::Kernel, true) => "off",
                (Order::Free, true) => "on",
            },
            programs: targets.count_programs(),
            connections: 0,
            followed: 0,
            idle: 0,
            under_way: 0,
            cannot: 0,
            left: Vec::new(),
        };
        for connection in &targets.connections {
            answer.count(targets, connection, order);
        }
        answer
    }

    fn count(&mut self, targets: &Targets, connection: &Connection, order: Order) {
        let (standing, reason) = targets.standing(connection, order);
        let state = match standing {
            Standing::Gone => return,
            Standing::Done => {
                self.connections += 1;
                self.followed += 1;
                return;
            }
            Standing::Never => State::Never,
            _ if order == Order::Free && targets.is_off(connection) => State::Off,
            Standing::Unseen => State::Idle,
            Standing::Seen => State::UnderWay,
        };
        self.connections += 1;
        *match state {
            State::Idle => &mut self.idle,
            State::UnderWay => &mut self.under_way,
            State::Never | State::Off => &mut self.cannot,
        } += 1;
        let row = targets.row(connection);
        self.left.push(Left {
            pid: row.pid,
            program: row.program.clone(),
            local: row.local,
            peer: row.peer,
            state,
            reason: reason.name(),
        });
    }

    pub fn text(&self) -> String {
        let programs = counted(self.programs, "program");
        let connections = counted(self.connections, "connection");
        let head = match self.order {
            "off" => format!("{programs} off, with {connections}"),
            "on" => format!("{programs} on again, with {connections}"),
            "demote" => format!("{connections} of {programs} ordered to kernel TCP"),
            _ => format!("{connections} of {programs} free to leave kernel TCP"),
        };
        let there = match self.is_to_kernel() {
            true => "there",
            false => "on rings or links",
        };
        let parts = [
            (self.followed, there),
            (self.idle, "idle, to follow at the next call"),
            (self.under_way, self.under_way_means()),
            (self.cannot, "unable to"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(n, what)| format!("{n} {what}")).collect();
        let mut lines = vec![match parts.is_empty() {
            true => head,
            false => format!("{head}: {}", parts.join(", ")),
        }];
        lines.extend(
            self.left
                .iter()
                .filter(|it| it.is_told(self))
                .map(Left::text),
        );
        lines.join("\n")
    }

    fn is_to_kernel(&self) -> bool {
        matches!(self.order, "demote" | "off")
    }

    fn under_way_means(&self) -> &'static str {
        match self.is_to_kernel() {
            true => "under way, the rest by the other end's next call",
            false => "still on kernel TCP",
        }
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

impl Left {
    /// Those whose reason says more than the count does.
    fn is_told(&self, answer: &Answer) -> bool {
        !answer.is_to_kernel() && self.state != State::Idle
    }

    fn text(&self) -> String {
        let why = match self.state {
            State::Idle => "idle".to_owned(),
            State::UnderWay if self.reason.is_empty() => "under way".to_owned(),
            State::UnderWay => format!("not yet ({})", self.reason),
            State::Never => format!("on kernel TCP for good ({})", self.reason),
            State::Off => "a program is off: `ulsock ctl on`".to_owned(),
        };
        format!(
            "  {} ({}) {} -> {}: {why}",
            self.program,
            self.pid,
            address(self.local),
            address(self.peer)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(state: State, reason: &'static str) -> Left {
        Left {
            pid: 7,
            program: "redis".to_owned(),
            local: None,
            peer: Some(Endpoint::Inet("127.0.0.1:6379".parse().unwrap())),
            state,
            reason,
        }
    }

    fn answer(order: &'static str, left: Vec<Left>) -> Answer {
        let count = |state| left.iter().filter(|it| it.state == state).count();
        Answer {
            order,
            programs: 1,
            connections: left.len() + 2,
            followed: 2,
            idle: count(State::Idle),
            under_way: count(State::UnderWay),
            cannot: count(State::Never) + count(State::Off),
            left,
        }
    }

    #[test]
    fn what_has_followed_and_what_has_not() {
        let demoted = answer("demote", vec![left(State::Idle, "")]);
        assert_eq!(
            demoted.text(),
            "3 connections of 1 program ordered to kernel TCP: 2 there, 1 idle, to follow at the next call"
        );
        let promoted = vec![
            left(State::Idle, ""),
            left(State::UnderWay, "no-peer"),
            left(State::Never, "scope"),
        ];
        let promoted = answer("promote", promoted).text();
        let lines: Vec<&str> = promoted.lines().collect();
        assert_eq!(lines.len(), 3, "{promoted}");
        assert!(lines[0].ends_with("1 still on kernel TCP, 1 unable to"));
        assert_eq!(
            lines[1],
            "  redis (7) - -> 127.0.0.1:6379: not yet (no-peer)"
        );
        assert!(lines[2].ends_with("on kernel TCP for good (scope)"));
    }
}
