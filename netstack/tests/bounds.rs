//! [X2] What a peer can make a link remember is bounded: attacks on each bound, with every allocated byte counted.

#[path = "bounds/count.rs"]
mod count;
#[path = "bounds/hostile.rs"]
mod hostile;
#[path = "bounds/peers.rs"]
mod peers;
#[path = "bounds/strangers.rs"]
mod strangers;
#[path = "bounds/victim.rs"]
mod victim;
