//! Groups whose members are threads of one process.

#[path = "../common/mod.rs"]
mod common;
mod ends;
mod help;
mod patience;
mod whole;
