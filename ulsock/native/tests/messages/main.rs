//! Messages between endpoints of one process.

#[path = "../common/mod.rs"]
mod common;
mod endpoints;
mod ends;
mod flow;
mod stalls;

const ECHO: u16 = 1;
const ANSWER: u16 = 2;
const TAKE: u16 = 3;
