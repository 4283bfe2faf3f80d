//! A network that is worse than the one there is, for tests: what `--impair` asks for. Every port of the
//! daemon then receives its frames by way of a simulated cable (`netstack::phy::Impaired`).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use netstack::phy::{Conditions, Impaired, Port};

/// What words there are.
const ALLOWED: &str =
    "loss=, duplication=, reordering= and corruption=, each 0% to 100%, and seed=, a number";
/// How late a frame is that others are to overtake: some tens of them on a busy link.
const DETOUR: Duration = Duration::from_micros(500);

/// What the network does to frames, and the seed that decides to which.
#[derive(Clone, Debug)]
pub struct Impairment {
    conditions: Conditions,
    seed: u64,
}

impl Impairment {
    /// Puts the bad network under a port.
    pub(super) fn wrap(&self, port: Box<dyn Port>) -> Box<dyn Port> {
        let conditions = self.conditions.clone();
        Box::new(Impaired::new(port, conditions, self.seed))
    }

    fn take(&mut self, word: &str) -> Result<(), BadWord> {
        let bad = |why| BadWord(word.to_owned(), why);
        let (name, value) = word.split_once('=').ok_or(bad("it has no ="))?;
        if name == "seed" {
            let seed = value.parse().ok();
            self.seed = seed.ok_or(bad("a seed is a whole number, not below 0"))?;
            return Ok(());
        }
        let Conditions {
            loss,
            duplication,
            corruption,
            detour: (reordering, _),
            ..
        } = &mut self.conditions;
        let part = match name {
            "loss" => loss,
            "duplication" => duplication,
            "reordering" => reordering,
            "corruption" => corruption,
            _ => return Err(bad("no such word")),
        };
        *part = percent(value).ok_or(bad("a part of the frames is 0% to 100%"))?;
        Ok(())
    }
}

fn percent(text: &str) -> Option<f64> {
    let number: f64 = text.strip_suffix('%')?.parse().ok()?;
    (0.0..=100.0).contains(&number).then_some(number / 100.0)
}

/// `loss=1%,duplication=1%,reordering=1%,corruption=0.5%,seed=7`; what is not named is 0, and the seed 1.
impl FromStr for Impairment {
    type Err = BadWord;

    fn from_str(text: &str) -> Result<Impairment, BadWord> {
        let conditions = Conditions {
            detour: (0.0, DETOUR),
            ..Conditions::default()
        };
        let mut impairment = Impairment {
            conditions,
            seed: 1,
        };
        text.split(',')
            .try_for_each(|word| impairment.take(word))
            .map(|()| impairment)
    }
}

impl fmt::Display for Impairment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |part: f64| (part * 1e8).round() / 1e6;
        let of = &self.conditions;
        write!(
            f,
            "loss={}%,duplication={}%,reordering={}%,corruption={}%,seed={}",
            percent(of.loss),
            percent(of.duplication),
            percent(of.detour.0),
            percent(of.corruption),
            self.seed
        )
    }
}

/// A word of the list that is wrong, and why.
#[derive(Debug, PartialEq, Eq)]
pub struct BadWord(String, &'static str);

impl fmt::Display for BadWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadWord(word, why) = self;
        write!(f, "{word:?}: {why} (allowed, comma separated: {ALLOWED})")
    }
}

impl std::error::Error for BadWord {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken() {
        let text = "loss=7%,duplication=2.5%,reordering=100%,corruption=0%,seed=7";
        let impairment: Impairment = text.parse().expect("good words");
        let of = impairment.conditions.clone();
        let parts = [of.loss, of.duplication, of.detour.0, of.corruption];
        assert_eq!(parts, [0.07, 0.025, 1.0, 0.0]);
        assert_eq!(impairment.seed, 7);
        assert_eq!(impairment.to_string(), text);
    }

    #[test]
    fn what_is_not_named_is_left_out() {
        let impairment: Impairment = "loss=3%".parse().expect("good words");
        let said = "loss=3%,duplication=0%,reordering=0%,corruption=0%,seed=1";
        assert_eq!(impairment.to_string(), said);
    }

    #[test]
    fn bad_words_are_refused() {
        for (text, word, why) in [
            ("", "", "it has no ="),
            ("loss", "loss", "it has no ="),
            ("loss=1%,", "", "it has no ="),
            ("loss=1", "loss=1", "a part of the frames is 0% to 100%"),
            (
                "loss=101%",
                "loss=101%",
                "a part of the frames is 0% to 100%",
            ),
            ("loss=-1%", "loss=-1%", "a part of the frames is 0% to 100%"),
            (
                "loss=NaN%",
                "loss=NaN%",
                "a part of the frames is 0% to 100%",
            ),
            ("loss=1%,delay=5", "delay=5", "no such word"),
            (
                "seed=1.5",
                "seed=1.5",
                "a seed is a whole number, not below 0",
            ),
        ] {
            let refused = text.parse::<Impairment>().expect_err(text);
            assert_eq!(refused, BadWord(word.to_owned(), why), "{text}");
        }
    }
}
