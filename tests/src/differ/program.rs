//! Programs as text: one step per line, `ACTOR THREAD CALL KEY=VALUE...`; `#` begins a comment.
//!
//! ```text
//! # a half-close, then data the other way
//! A0 link fd=0 peer=1 peerfd=0 rounds=8
//! A0 shutdown fd=0 how=1
//! B0 send fd=0 len=5
//! ```

use std::fmt;
use std::str::FromStr;

use super::names;

/// The names of the actors: A and B are started, C is forked from A and D from B.
pub const ACTORS: [char; 4] = ['A', 'B', 'C', 'D'];

/// One call of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index into [`ACTORS`].
    pub actor: usize,
    /// Which of the actor's threads makes the call.
    pub thread: usize,
    /// The name of the call.
    pub call: String,
    /// Its arguments; those that are missing are zero.
    pub args: Vec<(String, i64)>,
}

impl Step {
    /// A step without arguments yet.
    pub fn new(actor: usize, thread: usize, call: &str) -> Self {
        Self {
            actor,
            thread,
            call: call.to_owned(),
            args: Vec::new(),
        }
    }

    /// Adds an argument.
    pub fn with(mut self, key: &str, value: i64) -> Self {
        self.args.push((key.to_owned(), value));
        self
    }

    /// The value of an argument, or zero.
    pub fn get(&self, key: &str) -> i64 {
        self.find(key).unwrap_or(0)
    }

    /// Is it a call that only the kernel can serve? An accelerated connection with unread bytes then
    /// waits for its peer for a moment, and gets a stand-in if the peer does not answer.
    pub fn hands_over(&self) -> bool {
        const FLAGS: i32 = libc::MSG_ZEROCOPY;
        const OPTIONS: [&str; 1] = ["SO_TIMESTAMP"];
        match self.call.as_str() {
            "exec" | "pass" | "take" | "splice_in" | "splice_out" => true,
            // A forked child that uses a set of its parent's.
            call if call.starts_with("epoll_") && self.actor >= 2 => true,
            "connect" => self.get("unspec") != 0,
            // A socket that another process gets.
            "sendmsg" if self.find("whatfd").is_some() => true,
            "setsockopt" => OPTIONS.contains(&names::show("option", self.get("option")).as_str()),
            _ => self.get("flags") & i64::from(FLAGS) != 0,
        }
    }

    /// May an accelerated connection wait for its peer in it, for a moment? The kernel serves it, and the connection may go
    /// on in a ring later.
    pub fn may_wait_for_peer(&self) -> bool {
        const ASKS: [&str; 4] = ["SO_PEEK_OFF", "SO_PASSCRED", "SO_PASSSEC", "SO_PASSPIDFD"];
        let asks = self.call == "setsockopt"
            && ASKS.contains(&names::show("option", self.get("option")).as_str());
        let attaches = ["rights", "credentials"];
        self.hands_over() || asks || attaches.iter().any(|key| self.find(key).is_some())
    }

    /// Is the word its call, the key of an argument, a name in one's value (`MSG_PEEK`), or `KEY=VALUE`?
    pub fn has(&self, word: &str) -> bool {
        let argument = |(key, value): &(String, i64)| {
            let shown = names::show(key, *value);
            key == word
                || shown.split('|').any(|name| name == word)
                || format!("{key}={shown}") == word
        };
        self.call == word || self.args.iter().any(argument)
    }

    /// The value of an argument.
    pub fn find(&self, key: &str) -> Option<i64> {
        self.args
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| *value)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} {}", ACTORS[self.actor], self.thread, self.call)?;
        for (key, value) in &self.args {
            write!(f, " {key}={}", names::show(key, *value))?;
        }
        Ok(())
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let bad = |what: &str| format!("{what} in {line:?}");
        let mut words = line.split_whitespace();
        let who = words.next().ok_or_else(|| bad("no actor"))?;
        let actor = ACTORS.iter().position(|name| who.starts_with(*name));
        let actor = actor.ok_or_else(|| bad("no such actor"))?;
        let thread = who[1..].parse().map_err(|_| bad("bad thread"))?;
        let mut step = Step::new(actor, thread, words.next().ok_or_else(|| bad("no call"))?);
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| bad("no value"))?;
            let value = names::read(key, value).ok_or_else(|| bad(word))?;
            step.args.push((key.to_owned(), value));
        }
        Ok(step)
    }
}

/// A list of steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// In the order of execution.
    pub steps: Vec<Step>,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or("").trim());
        let steps = lines
            .filter(|line| !line.is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self { steps })
    }
}

#[cfg(test)]
mod tests {
    use super::Program;

    #[test]
    fn words_of_a_step() {
        let step: super::Step = "A0 recv fd=3 flags=MSG_PEEK|MSG_DONTWAIT over=path"
            .parse()
            .expect("a step");
        for word in ["recv", "fd", "fd=3", "MSG_PEEK", "path", "over=path"] {
            assert!(step.has(word), "{word}");
        }
        assert!(!step.has("MSG_OOB") && !step.has("send") && !step.has("fd=30"));
    }

    #[test]
    fn text_and_back() {
        let text = "A0 recv fd=3 len=10 flags=MSG_PEEK|MSG_DONTWAIT\n\
                    B2 epoll_ctl fd=1 events=IN|ONESHOT|ET\nC1 setsockopt option=SO_LINGER value=-1\n";
        let program: Program = text.parse().expect("a program");
        assert_eq!(program.to_string(), text);
        assert!("E0 recv".parse::<Program>().is_err());
        assert!("A0 recv flags=MSG_NONSENSE".parse::<Program>().is_err());
    }
}
