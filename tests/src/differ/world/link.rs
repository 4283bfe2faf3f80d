//! The steps that take two actors at once.

use super::{HANG, Waited, World, comparable, private};
use crate::differ::names::PAIR;
use crate::differ::program::Step;

/// A name that programs do not use, for the listener.
const LISTENER: i64 = 15;
/// What a Unix listener's name is, for the connection's `fd`; programs can name it after the listener has gone.
const LISTENER_NAMES: i64 = 10;

impl World {
    /// A connection between `fd` of the step's actor and `peerfd` of `peer`, exchanging `rounds`. Before it is
    /// connected, `peerfd` is registered in the set `early` for `events`, and gets the second name `dup`; and the name
    /// `bound`, if it is a Unix socket. `over` says what it is made of if not of TCP.
    pub(super) fn link(&mut self, step: &Step) -> String {
        let (here, there) = (step.actor, step.get("peer") as usize);
        if !self.free(there, 0) || !self.free(here, 0) {
            return "absent".to_owned();
        }
        let made = match step.get("over") {
            PAIR if here == there => self.pair(step),
            PAIR => self.handed_pair(step),
            _ => self.dialled(step),
        };
        match made {
            Ok(text) => format!("{text}{}", self.exchanged(step)),
            Err(text) => text,
        }
    }

    /// `over` and what else both ends have to know.
    fn order(step: &Step, actor: usize, call: &str) -> Step {
        let keys = ["v6", "over", "packets"];
        keys.iter().fold(Step::new(actor, 0, call), |order, key| {
            match step.find(key) {
                Some(value) => order.with(key, value),
                None => order,
            }
        })
    }

    fn dialled(&mut self, step: &Step) -> Result<String, String> {
        let (here, there) = (step.actor, step.get("peer") as usize);
        let serve = Self::order(step, here, "serve").with("to", LISTENER);
        let served = self.finish(match step.get("over") {
            0 => serve,
            _ => serve.with("port", LISTENER_NAMES + step.get("fd")),
        });
        let Some(port) = private(&served, "port") else {
            return Err(served);
        };
        let mut dial = Self::order(step, there, "dial")
            .with("to", step.get("peerfd"))
            .with("port", port);
        for key in ["early", "events", "data", "dup", "bound"] {
            if let Some(value) = step.find(key) {
                dial = dial.with(key, value);
            }
        }
        let dialled = self.finish(dial);
        let accepted = self.finish(
            Self::order(step, here, "accepted")
                .with("fd", LISTENER)
                .with("to", step.get("fd")),
        );
        Ok(format!("{dialled} {accepted}"))
    }

    /// Both ends in one process.
    fn pair(&mut self, step: &Step) -> Result<String, String> {
        let make = Self::order(step, step.actor, "socketpair")
            .with("to", step.get("fd"))
            .with("other", step.get("peerfd"));
        Ok(self.finish(make))
    }

    /// One end is passed to the peer.
    fn handed_pair(&mut self, step: &Step) -> Result<String, String> {
        let make = Self::order(step, step.actor, "paired").with("to", step.get("fd"));
        let made = self.finish(make);
        let peer = step.get("peer") as usize;
        let taken = self.finish(Step::new(peer, 0, "take").with("to", step.get("peerfd")));
        Ok(format!("{made} {taken}"))
    }

    /// Small messages between two ends that are there already.
    pub(super) fn talk(&mut self, step: &Step) -> String {
        let (here, there) = (step.actor, step.get("peer") as usize);
        if !self.free(here, 0) || !self.free(there, 0) || !self.free(there, 1) {
            return "absent".to_owned();
        }
        let said = self.exchanged(&step.clone().with("over", PAIR));
        said.trim_start().to_owned()
    }

    /// What the ends said to each other. One thread cannot wait for itself; two of a process can for each other.
    fn exchanged(&mut self, step: &Step) -> String {
        let (rounds, here, there) = (step.get("rounds"), step.actor, step.get("peer") as usize);
        let alone = here == there && (step.get("over") == 0 || !self.free(here, 1));
        if rounds == 0 || alone {
            return String::new();
        }
        let warm = |actor, thread, fd, turn| {
            Step::new(actor, thread, "warm")
                .with("fd", fd)
                .with("rounds", rounds)
                .with("turn", turn)
        };
        let (first, second) = self.together(
            warm(here, 0, step.get("fd"), 0),
            warm(there, usize::from(here == there), step.get("peerfd"), 1),
        );
        format!(" {first} {second}")
    }

    fn free(&self, actor: usize, thread: usize) -> bool {
        self.cast.is_there(actor) && !self.cast.is_busy(actor, thread)
    }

    /// Two steps that need each other, run to their ends.
    fn together(&mut self, first: Step, second: Step) -> (String, String) {
        for step in [&first, &second] {
            self.cast.tell(step.actor, step.thread, &step.to_string());
        }
        let texts = [first, second].map(|step| {
            let waited = match self.wait(step.actor, step.thread, HANG) {
                Waited::Blocked => Waited::Hangs,
                other => other,
            };
            self.note(step.actor, step.thread, waited)
        });
        let [first, second] = texts;
        (first, second)
    }

    /// Moves `total` bytes; what lay there before is taken first.
    pub(super) fn bulk(&mut self, step: &Step) -> String {
        let (peer, peerfd, total) = (
            step.get("peer") as usize,
            step.get("peerfd"),
            step.get("total"),
        );
        if !self.free(peer, 1) || !self.free(step.actor, 0) {
            return "absent".to_owned();
        }
        let drained = self.one(&Step::new(peer, 1, "drain").with("fd", peerfd));
        if !drained.ends_with("EAGAIN") {
            return drained;
        }
        let pour = Step::new(step.actor, 0, "pour")
            .with("fd", step.get("fd"))
            .with("total", total);
        let gather = Step::new(peer, 1, "gather")
            .with("fd", peerfd)
            .with("total", total);
        let (poured, gathered) = self.together(pour, gather);
        format!("{drained} {poured} {}", comparable(&gathered))
    }

    /// Sends until nothing more fits, then takes all of it.
    pub(super) fn flood(&mut self, step: &Step) -> String {
        let (peer, peerfd) = (step.get("peer") as usize, step.get("peerfd"));
        if !self.free(peer, 1) || !self.free(step.actor, 0) {
            return "absent".to_owned();
        }
        let drained = self.one(&Step::new(peer, 1, "drain").with("fd", peerfd));
        if !drained.ends_with("EAGAIN") {
            return drained;
        }
        let filled = self.finish(Step::new(step.actor, 0, "fill").with("fd", step.get("fd")));
        let sent = private(&filled, "sent").unwrap_or(0);
        let gathered = self.finish(
            Step::new(peer, 1, "gather")
                .with("fd", peerfd)
                .with("total", sent),
        );
        format!(
            "{drained} {} {}",
            comparable(&filled),
            comparable(&gathered)
        )
    }

    /// A step that may sleep for a while, run to its end.
    pub(super) fn finish(&mut self, step: Step) -> String {
        self.cast.tell(step.actor, step.thread, &step.to_string());
        let waited = self.wait(step.actor, step.thread, HANG);
        self.note(step.actor, step.thread, waited)
    }
}
