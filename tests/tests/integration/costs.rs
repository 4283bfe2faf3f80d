//! What accelerated connections cost: CPU time, instructions, system calls, memory, mappings and descriptors.

mod awake;
mod first;
mod go;
mod guard;
mod idle;
mod instructions;
mod leak;
mod limits;
mod memory;
mod sleeps;
