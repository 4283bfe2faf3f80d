//! Groups whose members are threads of one process.

#[path = "../common/mod.rs"]
mod common;
mod ends;
mod forks;
mod help;
mod hostile;
mod hosts;
mod patience;
mod roads;

mod whole;
