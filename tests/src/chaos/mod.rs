//! `tests/chaos`: programs that talk and check every byte, and a master that kills, stops and steers them at random.
//! The command is `src/bin/chaos`.

pub mod acts;
pub mod board;
pub mod cast;
pub mod judge;
pub mod master;
pub mod real;
pub mod scene;
pub mod serve;
pub mod state;
pub mod talk;
pub mod visit;
