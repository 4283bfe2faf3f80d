//! Requests between endpoints of one process.

#[path = "../common/mod.rs"]
mod common;
mod ends;
mod help;
mod refused;
mod whole;
