//! How much may be under way: a sender spends credit that the receiver has granted, and the receiver grants anew what its
//! handlers have taken. So what a peer can make a receiver keep is bounded, and a stream between two endpoints never
//! stands still because of a handler that does not take its message.

use super::error::Nonsense;

/// Messages of handlers have memory of their own at the other end: two full peers can always answer each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Sent outside of any handler.
    Request,
    /// Sent by a handler.
    Reply,
}

/// So many bytes of window allow one message that is not over: so the memory of handlers is bounded, too.
pub const BYTES_PER_MESSAGE: usize = 256;

/// Bytes that can be sent before the other end has granted any.
pub const FIRST: usize = 16 << 10;

/// A grant is worth a frame from this part of the window on.
const PART: usize = 4;

/// A sender with less than this may wait for it.
const LITTLE: usize = 1 << 10;

/// What is counted, each for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    /// That have begun; until the handler has ended, and the last byte has come.
    Messages,
}

/// One number for each class and unit.
#[derive(Clone, Copy, Debug)]
struct Table([[usize; 2]; 2]);

impl Table {
    fn at(&mut self, class: Class, unit: Unit) -> &mut usize {
        &mut self.0[class as usize][unit as usize]
    }
}

fn first() -> Table {
    Table([[FIRST, FIRST / BYTES_PER_MESSAGE]; 2])
}

/// What this end may still send.
#[derive(Debug)]
pub struct Spendable(Table);

impl Spendable {
    pub fn new() -> Spendable {
        Spendable(first())
    }

    /// Whether so many bytes can be sent, of a message that begins or has begun.
    #[inline]
    pub fn covers(&self, class: Class, bytes: usize, begins: bool) -> bool {
        let [left, messages] = self.0.0[class as usize];
        left >= bytes && messages >= usize::from(begins)
    }

    pub fn bytes(&self, class: Class) -> usize {
        self.0.0[class as usize][Unit::Bytes as usize]
    }

    #[inline]
    pub fn spend(&mut self, class: Class, bytes: usize, begins: bool) {
        *self.0.at(class, Unit::Bytes) -= bytes;
        *self.0.at(class, Unit::Messages) -= usize::from(begins);
    }

    /// Nobody grants more than he could ever keep.
    pub fn grant(&mut self, class: Class, unit: Unit, count: u32) -> Result<(), Nonsense> {
        let left = self.0.at(class, unit);
        let more = left.checked_add(count as usize).ok_or(Nonsense::Credit)?;
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
    left: Table,
    owed: Table,
    /// For each unit.
    window: [usize; 2],
}

impl Granted {
    pub fn new(window: usize) -> Granted {
        let window = window.max(FIRST);
        let window = [window, window / BYTES_PER_MESSAGE];
        let owed = [window[0] - FIRST, window[1] - FIRST / BYTES_PER_MESSAGE];
        Granted {
            left: first(),
            owed: Table([owed; 2]),
            window,
        }
    }

    /// The other end has sent so much.
    #[inline]
    pub fn take(&mut self, class: Class, bytes: usize, begins: bool) -> Result<(), Nonsense> {
        for (unit, count) in [(Unit::Bytes, bytes), (Unit::Messages, usize::from(begins))] {
            let left = self.left.at(class, unit);
            *left = left.checked_sub(count).ok_or(Nonsense::Credit)?;
        }
        Ok(())
    }

    /// So much of it is kept no longer. Whether a grant is due.
    #[inline]
    pub fn release(&mut self, class: Class, unit: Unit, count: usize) -> bool {
        *self.owed.at(class, unit) += count;
        self.is_due(class, unit)
    }

    /// A part of the window; or anything, if the other end may wait for that.
    #[inline]
    fn is_due(&mut self, class: Class, unit: Unit) -> bool {
        let little = match unit {
            Unit::Bytes => LITTLE,
            Unit::Messages => 1,
        };
        let owed = *self.owed.at(class, unit);
        owed >= self.window[unit as usize] / PART || owed > 0 && *self.left.at(class, unit) < little
    }

    /// What is to be granted now.
    pub fn due(&mut self) -> Option<(Class, Unit, u32)> {
        for class in [Class::Request, Class::Reply] {
            for unit in [Unit::Bytes, Unit::Messages] {
                if self.is_due(class, unit) {
                    let count = std::mem::take(self.owed.at(class, unit));
                    *self.left.at(class, unit) += count;
                    return Some((class, unit, count as u32));
                }
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
            while let Some((class, unit, count)) = granted.due() {
                spendable.grant(class, unit, count).expect("a grant");
            }
            let most = spendable.bytes(Class::Request);
            let sent = (step * 7919 % 5000).min(most);
            spendable.spend(Class::Request, sent, false);
            granted.take(Class::Request, sent, false).expect("credit");
            kept += sent;
            assert!(kept <= WINDOW, "{kept} bytes are kept");
            let done = (step * 104_729 % 5000).min(kept);
            granted.release(Class::Request, Unit::Bytes, done);
            kept -= done;
        }
    }

    #[test]
    fn a_window_that_is_used_up_comes_back_whole() {
        let (mut granted, mut spendable) = (Granted::new(FIRST), Spendable::new());
        let messages = FIRST / BYTES_PER_MESSAGE;
        for _ in 0..messages {
            spendable.spend(Class::Reply, BYTES_PER_MESSAGE, true);
            granted
                .take(Class::Reply, BYTES_PER_MESSAGE, true)
                .expect("credit");
        }
        assert!(!spendable.covers(Class::Reply, 0, true));
        granted.release(Class::Reply, Unit::Bytes, FIRST);
        granted.release(Class::Reply, Unit::Messages, messages);
        while let Some((class, unit, count)) = granted.due() {
            spendable.grant(class, unit, count).expect("a grant");
        }
        assert_eq!(spendable.bytes(Class::Reply), FIRST);
        assert!(spendable.covers(Class::Reply, FIRST, true));
    }

    /// Else a sender could wait for what nobody keeps.
    #[test]
    fn who_has_nothing_left_gets_whatever_is_owed() {
        let mut granted = Granted::new(FIRST);
        granted.take(Class::Request, FIRST, true).expect("credit");
        assert!(granted.release(Class::Request, Unit::Bytes, 1));
        assert_eq!(granted.due(), Some((Class::Request, Unit::Bytes, 1)));
        assert!(!granted.release(Class::Request, Unit::Messages, 1));
    }

    #[test]
    fn who_sends_more_than_he_may_is_found_out() {
        let mut granted = Granted::new(FIRST);
        granted.take(Class::Request, FIRST, true).expect("credit");
        let more = granted.take(Class::Request, 1, false);
        assert_eq!(more, Err(Nonsense::Credit));
        let more = granted.take(Class::Reply, FIRST + 1, true);
        assert_eq!(more, Err(Nonsense::Credit));
        let mut granted = Granted::new(FIRST);
        let begin = |granted: &mut Granted| granted.take(Class::Request, 0, true);
        for _ in 0..FIRST / BYTES_PER_MESSAGE {
            begin(&mut granted).expect("credit");
        }
        assert_eq!(begin(&mut granted), Err(Nonsense::Credit));
    }

    #[test]
    fn grants_without_end_are_refused() {
        let mut spendable = Spendable::new();
        let all = spendable.grant(Class::Request, Unit::Bytes, u32::MAX);
        assert_eq!(all, Err(Nonsense::Credit));
    }
}
