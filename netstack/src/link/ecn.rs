//! `[G3]` Whether ECN works on a path: the peer's counts must add up (RFC 9000, 13.4.2.1).

use crate::wire::ack::Marks;
use crate::wire::frame::Ecn;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Sent as capable; no count has come back yet.
    Testing,
    Working,
    /// Something on the way erases or invents marks, or the host does not want it.
    Off,
}

#[derive(Clone, Copy, Debug)]
pub struct EcnCheck {
    state: State,
    counted: Marks,
}

impl EcnCheck {
    pub fn new(wanted: bool) -> EcnCheck {
        EcnCheck {
            state: if wanted { State::Testing } else { State::Off },
            counted: Marks::default(),
        }
    }

    /// What the next packet says.
    pub fn mark(&self) -> Ecn {
        match self.state {
            State::Off => Ecn::NotCapable,
            State::Testing | State::Working => Ecn::Capable,
        }
    }

    /// So many packets were newly acknowledged, with these counts; how many of them were marked, if
    /// that can be believed.
    pub fn on_ack(&mut self, packets: u32, marks: Option<Marks>) -> Option<u32> {
        if self.state == State::Off {
            return None;
        }
        let Some(marks) = marks else {
            self.state = State::Off;
            return None;
        };
        let capable = marks.capable.wrapping_sub(self.counted.capable);
        let congested = marks.congested.wrapping_sub(self.counted.congested);
        // An acknowledgement that was overtaken has older counts.
        let (went_back, was_less) = ((capable as i32) < 0, (congested as i32) < 0);
        if (went_back || capable == 0) && (was_less || congested == 0) {
            return Some(0);
        }
        if went_back || was_less || capable.saturating_add(congested) < packets {
            self.state = State::Off;
            return None;
        }
        self.counted = marks;
        self.state = State::Working;
        Some(congested)
    }
}

#[cfg(test)]
mod tests {
    use super::EcnCheck;
    use crate::wire::ack::Marks;
    use crate::wire::frame::Ecn;

    fn marks(capable: u32, congested: u32) -> Option<Marks> {
        Some(Marks { capable, congested })
    }

    // [G3]
    #[test]
    fn counts_that_add_up_are_believed() {
        let mut ecn = EcnCheck::new(true);
        assert_eq!(ecn.mark(), Ecn::Capable);
        assert_eq!(ecn.on_ack(2, marks(2, 0)), Some(0));
        assert_eq!(ecn.on_ack(3, marks(3, 2)), Some(2));
        assert_eq!(ecn.on_ack(0, marks(2, 0)), Some(0));
        assert_eq!(ecn.mark(), Ecn::Capable);
    }

    // [G3]
    #[test]
    fn erased_marks_turn_it_off() {
        for counts in [None, marks(1, 0)] {
            let mut ecn = EcnCheck::new(true);
            assert_eq!(ecn.on_ack(2, counts), None);
            assert_eq!(ecn.mark(), Ecn::NotCapable);
        }
        assert_eq!(EcnCheck::new(false).mark(), Ecn::NotCapable);
    }
}
