//! The steps that take two actors at once.

use super::{HANG, Waited, World, comparable, private};
use crate::differ::program::Step;

/// A name that programs do not use, for the listener.
const LISTENER: i64 = 15;

impl World {
    /// A connection between `fd` of the step's actor and `peerfd` of `peer`, exchanging `rounds`. Before it is
    /// connected, `peerfd` is registered in the set `early` for `events`, and gets the second name `dup`.
    pub(super) fn link(&mut self, step: &Step) -> String {
        let (here, there, v6) = (step.actor, step.get("peer") as usize, step.get("v6"));
        if !self.free(there, 0) || !self.free(here, 0) {
            return "absent".to_owned();
        }
        let order = |actor, call: &str| Step::new(actor, 0, call).with("v6", v6);
        let served = self.finish(order(here, "serve").with("to", LISTENER));
        let Some(port) = private(&served, "port") else {
            return served;
        };
        let mut dial = order(there, "dial")
            .with("to", step.get("peerfd"))
            .with("port", port);
        for key in ["early", "events", "data", "dup"] {
            if let Some(value) = step.find(key) {
                dial = dial.with(key, value);
            }
        }
        let dialled = self.finish(dial);
        let accepted = self.finish(
            order(here, "accepted")
                .with("fd", LISTENER)
                .with("to", step.get("fd")),
        );
        let rounds = step.get("rounds");
        let text = format!("{dialled} {accepted}");
        // One thread cannot wait for itself.
        if rounds == 0 || here == there {
            return text;
        }
        let warm = |actor, fd, turn| {
            Step::new(actor, 0, "warm")
                .with("fd", fd)
                .with("rounds", rounds)
                .with("turn", turn)
        };
        let (first, second) = self.together(
            warm(here, step.get("fd"), 0),
            warm(there, step.get("peerfd"), 1),
        );
        format!("{text} {first} {second}")
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
    fn finish(&mut self, step: Step) -> String {
        self.cast.tell(step.actor, step.thread, &step.to_string());
        let waited = self.wait(step.actor, step.thread, HANG);
        self.note(step.actor, step.thread, waited)
    }
}
