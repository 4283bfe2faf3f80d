//! How much may be under way: a sender spends credit that the receiver has granted, and the receiver grants anew what its
//! handlers have taken. So what a peer can make a receiver keep is bounded, and a stream between two endpoints never
//! stands still because of a handler that does not take its message.

use super::error::Nonsense;
use super::frame::Class;

/// What each message costs beside its bytes, until its handler is done: the memory of handlers is bounded by this.
pub const MESSAGE: usize = 256;

/// Before the other end has granted anything.
pub const FIRST: usize = 16 << 10;

/// A grant is worth a frame from this part of the window on.
const PART: usize = 4;

/// What this end may still send.
#[derive(Debug)]
pub struct Spendable([usize; 2]);

impl Spendable {
    pub fn new() -> Spendable {
        Spendable([FIRST; 2])
    }

    pub fn left(&self, class: Class) -> usize {
        self.0[class as usize]
    }

    pub fn spend(&mut self, class: Class, bytes: usize) {
        self.0[class as usize] -= bytes;
    }

    /// Nobody grants more than he could ever keep.
    pub fn grant(&mut self, class: Class, bytes: u32) -> Result<(), Nonsense> {
        let left = &mut self.0[class as usize];
        let more = left.checked_add(bytes as usize).ok_or(Nonsense::Credit)?;
        if more > u32::MAX as usize {
            return Err(Nonsense::Credit);
        }
        *left = more;
        Ok(())
    }
}

/// What the other end may still send, and what it is owed.
#[derive(Debug)]
pub struct Granted {
    left: [usize; 2],
    owed: [usize; 2],
    window: usize,
}

impl Granted {
    pub fn new(window: usize) -> Granted {
        let window = window.max(FIRST);
        Granted {
            left: [FIRST; 2],
            owed: [window - FIRST; 2],
            window,
        }
    }

    /// The other end has sent so much.
    pub fn take(&mut self, class: Class, bytes: usize) -> Result<(), Nonsense> {
        let left = &mut self.left[class as usize];
        *left = left.checked_sub(bytes).ok_or(Nonsense::Credit)?;
        Ok(())
    }

    /// So much of it is kept no longer. Whether a grant is due.
    #[inline]
    pub fn release(&mut self, class: Class, bytes: usize) -> bool {
        let owed = &mut self.owed[class as usize];
        *owed += bytes;
        *owed >= self.window / PART
    }

    /// What is to be granted now, if it is worth a frame.
    pub fn due(&mut self) -> Option<(Class, u32)> {
        for class in [Class::Request, Class::Reply] {
            let owed = &mut self.owed[class as usize];
            if *owed >= self.window / PART {
                let bytes = std::mem::take(owed);
                self.left[class as usize] += bytes;
                return Some((class, bytes as u32));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_never_exceeds_the_window() {
        const WINDOW: usize = 64 << 10;
        let (mut granted, mut spendable) = (Granted::new(WINDOW), Spendable::new());
        let mut kept = 0;
        for step in 1..10_000_usize {
            while let Some((class, bytes)) = granted.due() {
                spendable.grant(class, bytes).expect("a grant");
            }
            let most = spendable.left(Class::Request);
            let sent = (step * 7919 % 5000).min(most);
            spendable.spend(Class::Request, sent);
            granted.take(Class::Request, sent).expect("credit");
            kept += sent;
            assert!(kept <= WINDOW, "{kept} bytes are kept");
            let done = (step * 104_729 % 5000).min(kept);
            granted.release(Class::Request, done);
            kept -= done;
        }
    }

    #[test]
    fn a_window_that_is_used_up_comes_back_whole() {
        let (mut granted, mut spendable) = (Granted::new(FIRST), Spendable::new());
        spendable.spend(Class::Reply, FIRST);
        granted.take(Class::Reply, FIRST).expect("credit");
        granted.release(Class::Reply, FIRST);
        let (class, bytes) = granted.due().expect("a grant");
        spendable.grant(class, bytes).expect("a grant");
        assert_eq!(spendable.left(Class::Reply), FIRST);
        assert_eq!(granted.due(), None);
    }

    #[test]
    fn who_sends_more_than_he_may_is_found_out() {
        let mut granted = Granted::new(FIRST);
        granted.take(Class::Request, FIRST).expect("credit");
        assert_eq!(granted.take(Class::Request, 1), Err(Nonsense::Credit));
        assert_eq!(granted.take(Class::Reply, FIRST + 1), Err(Nonsense::Credit));
    }

    #[test]
    fn grants_without_end_are_refused() {
        let mut spendable = Spendable::new();
        assert_eq!(
            spendable.grant(Class::Request, u32::MAX),
            Err(Nonsense::Credit)
        );
    }
}
