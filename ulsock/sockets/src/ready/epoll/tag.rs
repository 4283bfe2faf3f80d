//! The data of kernel registrations: ours carry a tag. A program's own data that looks like it goes
//! through a table, so nothing that a program registers is ever taken for ours.

use std::os::fd::RawFd;

const TAG: u64 = 0xa5c3_96e1 << 32;
const BELL: u32 = u32::MAX;
const ALIAS: u32 = 1 << 31;

/// Whom a kernel event is about.
pub enum Meaning {
    /// The program's own, as it is.
    Program(u64),
    Bell,
    Member(RawFd),
}

pub const fn bell() -> u64 {
    TAG | BELL as u64
}

pub fn member(fd: RawFd) -> u64 {
    TAG | u64::from(fd as u32)
}

/// Data of the program's that begins with our tag.
#[derive(Default)]
pub struct Aliases(Vec<u64>);

impl Aliases {
    #[inline]
    pub fn needed(data: u64) -> bool {
        data >> 32 == TAG >> 32
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What to register for the program's `data`.
    pub fn register(&mut self, data: u64) -> u64 {
        if !Aliases::needed(data) {
            return data;
        }
        let known = self.0.iter().position(|other| *other == data);
        let index = known.unwrap_or_else(|| {
            self.0.push(data);
            self.0.len() - 1
        });
        TAG | u64::from(ALIAS | index as u32)
    }

    #[inline]
    pub fn meaning(&self, data: u64) -> Meaning {
        if !Aliases::needed(data) {
            return Meaning::Program(data);
        }
        match data as u32 {
            BELL => Meaning::Bell,
            alias if alias & ALIAS != 0 => {
                let index = (alias & !ALIAS) as usize;
                Meaning::Program(self.0.get(index).copied().unwrap_or(data))
            }
            fd => Meaning::Member(fd as RawFd),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_data_comes_back() {
        let mut aliases = Aliases::default();
        let own = [
            0,
            7,
            u64::MAX,
            TAG,
            bell(),
            member(5),
            TAG | u64::from(ALIAS),
        ];
        for _ in 0..2 {
            for data in own {
                let kernel = aliases.register(data);
                assert!(matches!(aliases.meaning(kernel), Meaning::Program(back) if back == data));
            }
        }
        assert!(matches!(aliases.meaning(bell()), Meaning::Bell));
        assert!(matches!(aliases.meaning(member(5)), Meaning::Member(5)));
    }
}
