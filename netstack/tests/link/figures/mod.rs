//! What the link achieves, and beside what: figures from simulation, the same on every machine.

mod dumbbell;
mod linked;
mod model;
mod others;
mod sharing;
mod small;
mod snapshot;
mod table;
mod tcp;
