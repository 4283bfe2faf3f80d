//! A hostile peer. [X2] What it can make a link remember is bounded: attacks on each bound, with every allocated byte
//! counted. [X1] And what cannot be true changes nothing.

#[path = "bounds/count.rs"]
mod count;
#[path = "bounds/hostile.rs"]
mod hostile;
#[path = "bounds/lies.rs"]
mod lies;
#[path = "bounds/peers.rs"]
mod peers;
#[path = "bounds/strangers.rs"]
mod strangers;
#[path = "bounds/victim.rs"]
mod victim;
