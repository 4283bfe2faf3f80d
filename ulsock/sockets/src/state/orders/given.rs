//! Giving orders, from another process: the memory of a family, mapped to write.

use std::sync::atomic::Ordering;

use rustix::io;

use super::{OFF, Order};
use crate::state::process_group::Header;
use crate::state::process_group::found::FoundFamily;
use crate::state::process_group::writable::WritableFamily;
use crate::state::record::{Record, State, flag};
use rendezvous::reason::Reason;

/// A family that may be given orders: we are its user, or root.
pub struct OrderedFamily(WritableFamily);

impl OrderedFamily {
    pub fn open(found: &FoundFamily) -> io::Result<OrderedFamily> {
        WritableFamily::open(found).map(OrderedFamily)
    }

    fn header(&self) -> &Header {
        self.0.header()
    }

    fn record(&self, number: u32) -> Option<&Record> {
        self.0.record(number)
    }

    /// Asks this of a connection. `false`: it is gone.
    pub fn order(&self, number: u32, generation: u32, order: Order) -> bool {
        let Some(record) = self.record(number) else {
            return false;
        };
        ask(record, generation, order)
    }

    /// Asks the whole program to stay on the kernel, or not any more.
    pub fn order_all(&self, off: bool) {
        let word = if off { OFF } else { 0 };
        self.header().order.store(word, Ordering::Release);
        self.tell_all();
    }

    /// What stands in the header has changed: every connection looks.
    fn tell_all(&self) {
        for record in (0..self.0.used()).filter_map(|number| self.record(number)) {
            if matches!(record.state(), State::Plain | State::Managed) {
                tell(record);
            }
        }
    }

    /// Is the program to stay on the kernel, whatever is asked of its connections?
    pub fn is_off(&self) -> bool {
        super::is_off(self.header())
    }

    /// What has become of this order, and why the connection is on the kernel, if it is.
    pub fn standing(&self, number: u32, generation: u32, order: Order) -> (Standing, Reason) {
        match self.record(number) {
            Some(record) if record.generation.load(Ordering::Acquire) == generation => {
                (standing(record, order), record.reason())
            }
            _ => (Standing::Gone, Reason::None),
        }
    }
}

/// How far an order has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Both directions are where they were ordered.
    Done,
    /// The connection has made no call since.
    Unseen,
    /// It has, and is not there yet: the other end has to follow, or there is another reason.
    Seen,
    /// It is the kernel's for good.
    Never,
    /// It has ended.
    Gone,
}

fn standing(record: &Record, order: Order) -> Standing {
    let rings = [record.tx.is_on_ring(), record.rx.is_on_ring()];
    let unseen = record.has(flag::ORDERED);
    match (order, record.state()) {
        (_, State::Free | State::Out) => Standing::Gone,
        // Who is about to give it rings looks at the order first.
        (Order::Kernel, State::Plain) => Standing::Done,
        (Order::Free, _) if rings == [true; 2] => Standing::Done,
        (Order::Free, _) if record.has(flag::PINNED | flag::STAYS) => Standing::Never,
        _ if unseen => Standing::Unseen,
        (Order::Kernel, _) if rings == [false; 2] => Standing::Done,
        _ => Standing::Seen,
    }
}

/// `false`: the record is not this connection's any more.
pub(super) fn ask(record: &Record, generation: u32, order: Order) -> bool {
    let current = || record.generation.load(Ordering::Acquire);
    let asked = record.order.ask(generation, order.number(), current);
    if asked {
        tell(record);
    }
    asked
}

/// Its next call looks. A plain one, which tests no flag, comes to its next look at once.
fn tell(record: &Record) {
    record.begin(flag::ORDERED);
    if record.state() == State::Plain {
        record.next_look.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::process_group::{MAGIC, ProcessGroup, RECORDS, found};
    use rendezvous::rundir::scratch::Scratch;

    /// The memory of the only family there.
    fn open(dir: &Scratch) -> OrderedFamily {
        let mut families = Vec::new();
        found::each(&found::Reach::of(dir), |found| {
            families.push(OrderedFamily::open(&found))
        });
        let family = families.pop().expect("a family");
        assert!(families.is_empty());
        family.expect("to be opened")
    }

    fn generation(record: &Record) -> u32 {
        record.generation.load(Ordering::Relaxed)
    }

    #[test]
    fn a_connection_is_told() {
        let dir = Scratch::new();
        let family = ProcessGroup::create(&dir).unwrap();
        let number = family.claim().unwrap();
        let record = family.record(number);
        record.next_look.store(7, Ordering::Relaxed);
        let outside = open(&dir);
        assert!(outside.order(number, generation(record), Order::Kernel));
        assert_eq!(Order::of(record), Some(Order::Kernel));
        assert!(record.has(flag::ORDERED));
        let standing = || outside.standing(number, generation(record), Order::Free).0;
        assert_eq!(standing(), Standing::Unseen);
        assert_eq!(
            record.next_look.load(Ordering::Relaxed),
            0,
            "it looks at once"
        );
        super::super::take(record);
        assert_eq!(standing(), Standing::Seen);
        assert!(!super::super::is_off(family.header()));
        outside.order_all(true);
        assert!(super::super::is_off(family.header()));
        assert_eq!(standing(), Standing::Unseen, "for all means for this one");
        assert!(outside.is_off());
    }

    #[test]
    fn the_next_connection_is_not_told() {
        let dir = Scratch::new();
        let family = ProcessGroup::create(&dir).unwrap();
        let number = family.claim().unwrap();
        let before = generation(family.record(number));
        let outside = open(&dir);
        assert!(outside.order(number, before, Order::Kernel));
        family.free(number);
        assert_eq!(family.claim(), Some(number));
        let record = family.record(number);
        assert_eq!(Order::of(record), None);
        assert!(!record.has(flag::ORDERED));
        assert!(!outside.order(number, before, Order::Kernel));
        assert_eq!(Order::of(record), None);
    }

    #[test]
    fn records_that_are_not_there_are_not_touched() {
        let dir = Scratch::new();
        let family = ProcessGroup::create(&dir).unwrap();
        let outside = open(&dir);
        let blocks = || rustix::fs::fstat(outside.0.file()).map(|it| it.st_blocks);
        let before = blocks();
        for highest in [0, 5, u32::MAX] {
            family.header().highest.store(highest, Ordering::Relaxed);
            for number in [highest, RECORDS as u32, u32::MAX] {
                assert!(
                    !outside.order(number, 1, Order::Kernel),
                    "{number} of {highest}"
                );
            }
        }
        outside.order_all(true);
        assert_eq!(blocks(), before, "nor given memory");
    }

    #[test]
    fn what_is_no_family_is_given_no_order() {
        let dir = Scratch::new();
        let family = ProcessGroup::create(&dir).unwrap();
        family.header().magic.store(MAGIC + 1, Ordering::Relaxed);
        let mut opened = Vec::new();
        found::each(&found::Reach::of(&dir), |found| {
            opened.push(OrderedFamily::open(&found).is_ok())
        });
        assert_eq!(opened, [false]);
    }
}
