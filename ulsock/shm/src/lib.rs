//! What two processes share: sealed segments, their layout, doorbells, and who sleeps.

pub mod doorbell;
pub mod layout;
pub mod order;
pub mod segment;
pub mod waiter;
