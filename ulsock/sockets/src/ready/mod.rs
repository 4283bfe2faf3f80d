//! Readiness: `poll`, `select` and epoll sets.

pub mod epoll;
pub mod poll;
pub mod select;

#[cfg(test)]
mod tests;
