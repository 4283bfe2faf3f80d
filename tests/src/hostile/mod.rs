//! A hostile peer on one host: it speaks the handshake and then does everything wrong, against a victim that serves
//! others at the same time.
//!
//! `wire`, `memory` and `offers` are a second implementation of what two processes say and share; `suitor` and
//! `claimant` are the two sides of the handshake, by hand; an `accomplice` runs the product, and its memory is written
//! over. `cases` is the table of attacks. `world` has a victim and its honest clients and judges what an attack
//! has cost them; `campaign` runs many. All are roles of one program, `src/bin/hostile.rs`.

pub mod accomplice;
pub mod campaign;
pub mod cases;
mod claimant;
pub mod honest;
mod memory;
mod offers;
pub mod scene;
mod suitor;
mod unix;
pub mod victim;
mod wire;
pub mod world;
