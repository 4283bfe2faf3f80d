//! The formats of the link protocol (docs/link.md, "Packets").

#[path = "wire/ack.rs"]
mod ack;
#[path = "wire/draft.rs"]
mod draft;
#[path = "wire/frame.rs"]
mod frame;
#[path = "wire/fuzz.rs"]
mod fuzz;
#[path = "wire/layout.rs"]
mod layout;
#[path = "wire/packet.rs"]
mod packet;
#[path = "wire/seal.rs"]
mod seal;
