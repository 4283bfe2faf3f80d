//! Programs in other containers, and the daemon of the host that introduces them to us.

use super::Control;
use super::meet::LOOKS_FOR_CLAIM;
use crate::state::container_client::ContainerNews;
use rendezvous::reason::Reason;

impl Control {
    /// Is there a daemon of the host that could find somebody?
    pub fn has_broker(&mut self) -> bool {
        self.broker.is_there(&self.dir)
    }

    /// Takes what the daemon of the host has said: gives the records whose other ends are known now, and those
    /// that it can do nothing for.
    pub fn hear_broker(&mut self) -> (Vec<u32>, Vec<(u32, Reason)>) {
        let ContainerNews {
            found,
            refused,
            claimers,
        } = self.broker.hear();
        self.incoming.extend(claimers);
        let awaited = found.iter().map(|number| (*number, LOOKS_FOR_CLAIM));
        self.meeting.wanted.extend(awaited);
        (found, refused)
    }
}
