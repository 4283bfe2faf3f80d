//! How far a peer is believed. Who has shown one connection that is really between us is known; whoever else has found
//! our mailbox is a stranger: of him we keep next to nothing, and we do little for him.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Claims that lead nowhere, and that a stranger is forgiven: connections end while they are claimed.
const FIRST: u32 = 16;
/// A genuine claim makes up for some of them, up to so many.
const REWARD: u32 = 4;
const MOST_CREDIT: u32 = 64;
/// What a claim of somebody else's connection costs. It can be honest: a port that is in use again.
const FALSEHOOD: u32 = 16;

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Genuine,
    /// We have no offer of that name, or none any more.
    Unknown,
    /// The kernel knows no other end.
    Gone,
    /// The other end is somebody else's.
    False,
}

#[derive(Debug)]
pub struct Credit {
    known: AtomicBool,
    left: AtomicU32,
}

impl Credit {
    pub fn of_stranger() -> Credit {
        Credit {
            known: AtomicBool::new(false),
            left: AtomicU32::new(FIRST),
        }
    }

    pub fn is_known(&self) -> bool {
        self.known.load(Ordering::Acquire)
    }

    pub fn prove(&self) {
        self.known.store(true, Ordering::Release);
    }

    /// `false`: it has none left.
    pub fn note(&self, verdict: Verdict) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        let left = match verdict {
            Verdict::Genuine => {
                self.prove();
                (left + REWARD).min(MOST_CREDIT)
            }
            // Short connections end all the time while they are claimed.
            Verdict::Unknown | Verdict::Gone if self.is_known() => left,
            Verdict::Unknown | Verdict::Gone => left.saturating_sub(1),
            Verdict::False => left.saturating_sub(FALSEHOOD),
        };
        self.left.store(left, Ordering::Relaxed);
        left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_who_lies_has_no_credit() {
        let credit = Credit::of_stranger();
        assert!(!credit.note(Verdict::False));
    }

    #[test]
    fn a_stranger_is_forgiven_a_few_claims_that_lead_nowhere() {
        for verdict in [Verdict::Unknown, Verdict::Gone] {
            let credit = Credit::of_stranger();
            let forgiven = (0..100).take_while(|_| credit.note(verdict)).count();
            assert_eq!(forgiven, FIRST as usize - 1);
            assert!(!credit.is_known());
        }
    }

    #[test]
    fn one_genuine_claim_makes_a_peer_known_and_lies_end_it_all_the_same() {
        let credit = Credit::of_stranger();
        assert!(credit.note(Verdict::Genuine) && credit.is_known());
        for honest in [Verdict::Unknown, Verdict::Gone] {
            assert!((0..1_000_000).all(|_| credit.note(honest)));
        }
        assert!(credit.note(Verdict::False));
        assert!((0..100).any(|_| !credit.note(Verdict::False)));
    }
}
