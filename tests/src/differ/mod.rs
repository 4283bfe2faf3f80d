//! The differential tester: random programs of socket calls, run on kernel TCP and accelerated, call
//! by call in lock step, and compared.
//!
//! A [`program`] is a text. [`generate`] makes one from a seed, [`world`] runs it with processes that
//! each serve an [`actor`], [`compare`] sets two runs against each other, [`shrink`] makes a program
//! that shows a difference small.

pub mod actor;
pub mod campaign;
pub mod compare;
pub mod generate;
pub mod mode;
pub mod names;
pub mod program;
pub mod shrink;
pub mod wires;
pub mod world;
