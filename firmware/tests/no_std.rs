//! The engine runs where there is no operating system.

#[path = "../../netstack/tests/no_std.rs"]
mod no_std;
