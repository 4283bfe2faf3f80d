//! Orders: what is asked of a live program from outside. `ulsock ctl` keeps a connection, or all of a program, on the
//! kernel, and lets it go again.
//!
//! What is asked stands in the memory of the program's family: in the record of a connection, under the use of the record
//! that is meant, and in the header. It is a state and stays there; the flag ORDERED tells the connection's next call to
//! look. Calls without an order pay nothing: they test the flag together with others. Who may write there is who may open
//! the memory of a program in /proc: its user and root. What stands there is not trusted: words that are unknown ask
//! nothing.

mod given;

use std::sync::atomic::Ordering;

use crate::state::process_group::{self, Header};
use crate::state::record::{Record, flag};

pub use given::{OrderedFamily, Standing};

/// What is asked of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It stays on the kernel.
    Kernel,
    /// It may go where it likes.
    Free,
}

impl Order {
    fn number(self) -> u32 {
        match self {
            Order::Kernel => 1,
            Order::Free => 2,
        }
    }

    fn from_number(number: u32) -> Option<Order> {
        match number {
            1 => Some(Order::Kernel),
            2 => Some(Order::Free),
            _ => None,
        }
    }

    /// What is asked of this connection, in this use of its record.
    pub fn of(record: &Record) -> Option<Order> {
        let asked = record
            .order
            .asked(record.generation.load(Ordering::Acquire));
        asked.and_then(Order::from_number)
    }
}

/// In the header: nothing of the program goes to rings or links.
const OFF: u32 = 1;

/// Is the program with this header to stay on the kernel?
pub fn is_off(header: &Header) -> bool {
    header.order.load(Ordering::Acquire) == OFF
}

/// Is this connection of our own to stay on the kernel, by an order for it or for all?
pub fn keep_on_kernel(record: &Record) -> bool {
    Order::of(record) == Some(Order::Kernel)
        || process_group::own().is_some_and(|family| is_off(family.header()))
}

/// The flag has been seen: from here on what is asked is read. What is asked later sets it again.
pub fn take(record: &Record) {
    record.take(flag::ORDERED);
}

/// As if somebody outside had.
#[cfg(test)]
pub fn ask(record: &Record, order: Order) {
    let generation = record.generation.load(Ordering::Acquire);
    assert!(given::ask(record, generation, order));
}
