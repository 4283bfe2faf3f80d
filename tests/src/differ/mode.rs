//! How a program is run: on kernel TCP, or with ulsock under one or both of its actors.

use std::fmt;
use std::str::FromStr;

/// One way to run a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// Is A, and is B, under ulsock? Their children are as they are.
    pub under: [bool; 2],
    /// `ULSOCK_CHAOS`, in thousandths of the calls.
    pub chaos: u32,
    /// `ULSOCK_RING`, or 0 for the default.
    pub ring: u32,
    /// `ULSOCK_PROFILE=frugal`: never spins.
    pub frugal: bool,
    /// `ULSOCK_SPIN_US=2000`: every wait is awake at first, also on kernel TCP.
    pub awake: bool,
    /// `ULSOCK_GUARD=eager`: connections are taken to the kernel and back, again and again.
    pub eager: bool,
    /// The actors have an io_uring beside their sockets; see `actor::uring`.
    pub uring: bool,
}

impl Mode {
    /// Plain kernel TCP.
    pub fn kernel() -> Self {
        Self::default()
    }

    /// Both ends accelerated, nothing special.
    pub fn both() -> Self {
        Self {
            under: [true; 2],
            ..Self::default()
        }
    }

    /// The modes that a campaign goes through; most of them accelerate both ends.
    pub fn all(chaos: u32) -> Vec<Self> {
        let both = Self {
            chaos,
            ..Self::both()
        };
        let chaotic = Self {
            chaos: if chaos == 0 { 200 } else { chaos },
            ..Self::both()
        };
        vec![
            both.clone(),
            Self {
                frugal: true,
                ..both.clone()
            },
            chaotic.clone(),
            Self {
                ring: 16384,
                ..both.clone()
            },
            both,
            Self {
                ring: 16384,
                frugal: true,
                ..chaotic
            },
            Self {
                frugal: true,
                eager: true,
                ..Self::both()
            },
            Self {
                under: [true, false],
                ..Self::default()
            },
            Self {
                under: [false, true],
                ..Self::default()
            },
            Self {
                under: [true, false],
                awake: true,
                ..Self::default()
            },
            Self {
                under: [false, true],
                awake: true,
                ..Self::default()
            },
            Self {
                awake: true,
                eager: true,
                ..Self::both()
            },
            uring(0),
            uring(200),
        ]
    }

    /// Do both ends run ulsock, so that rings must show?
    pub fn accelerates(&self) -> bool {
        self.under == [true; 2]
    }

    /// The variables for an actor under ulsock.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![("ULSOCK_UPGRADE_AFTER", "1".to_owned())];
        if self.chaos > 0 {
            settings.push(("ULSOCK_CHAOS", self.chaos.to_string()));
        }
        if self.ring > 0 {
            settings.push(("ULSOCK_RING", self.ring.to_string()));
        }
        if self.frugal {
            settings.push(("ULSOCK_PROFILE", "frugal".to_owned()));
        }
        if self.awake {
            settings.push(("ULSOCK_SPIN_US", "2000".to_owned()));
        }
        if self.eager {
            settings.push(("ULSOCK_GUARD", "eager".to_owned()));
        }
        settings
    }
}

/// With an io_uring beside the sockets, and carriers that change at random.
fn uring(chaos: u32) -> Mode {
    Mode {
        uring: true,
        frugal: chaos > 0,
        chaos,
        ..Mode::both()
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.under {
            [false, false] => "kernel",
            [true, true] => "both",
            [true, false] => "a-only",
            [false, true] => "b-only",
        })?;
        if self.chaos > 0 {
            write!(f, ",chaos={}", self.chaos)?;
        }
        if self.ring > 0 {
            write!(f, ",ring={}", self.ring)?;
        }
        f.write_str(if self.frugal { ",frugal" } else { "" })?;
        f.write_str(if self.awake { ",awake" } else { "" })?;
        f.write_str(if self.eager { ",eager" } else { "" })?;
        f.write_str(if self.uring { ",uring" } else { "" })
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut mode = Self::default();
        let bad = |word: &str| {
            format!(
                "{word:?} is no mode: kernel, both, a-only or b-only, then ,chaos=N ,ring=N ,frugal ,awake ,eager ,uring"
            )
        };
        for (index, word) in text.split(',').enumerate() {
            let (key, value) = word.split_once('=').unwrap_or((word, "0"));
            let value = value.parse().map_err(|_| bad(word))?;
            match (index, key) {
                (0, "kernel") => {}
                (0, "both") => mode.under = [true; 2],
                (0, "a-only") => mode.under = [true, false],
                (0, "b-only") => mode.under = [false, true],
                (1.., "chaos") => mode.chaos = value,
                (1.., "ring") => mode.ring = value,
                (1.., "frugal") => mode.frugal = true,
                (1.., "awake") => mode.awake = true,
                (1.., "eager") => mode.eager = true,
                (1.., "uring") => mode.uring = true,
                _ => return Err(bad(word)),
            }
        }
        Ok(mode)
    }
}

#[cfg(test)]
mod tests {
    use super::Mode;

    #[test]
    fn text_and_back() {
        for mode in Mode::all(0) {
            assert_eq!(mode.to_string().parse::<Mode>(), Ok(mode));
        }
        assert!("both,wild".parse::<Mode>().is_err());
    }
}
