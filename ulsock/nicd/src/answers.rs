//! What programs are told when the daemon does not do what they ask for.

use super::say;
use rendezvous::channel::Channel;
use rendezvous::message::{EVERY_COOKIE, Message};
use rendezvous::pair::Pair;
use rendezvous::reason::Reason;

/// Nobody waits for an answer: one that finds no room is none.
pub fn refuse(pair: &Pair, cookie: u64, reason: Reason) {
    let message = Message::Refuse {
        cookie,
        reason: reason as u16,
    };
    if !pair.tell(&message, None) {
        say!("pid {}: does not read what it is told", pair.peer().pid);
    }
}

/// Its user has no place more: all its connections stay where they are. Nobody waits for the answer.
pub fn turn_away(channel: &Channel) {
    let message = Message::Refuse {
        cookie: EVERY_COOKIE,
        reason: Reason::TableFull as u16,
    };
    let _ = channel.send(&message, None);
}
