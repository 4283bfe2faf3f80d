//! What an engine has done. What its links have done is in [`netstack::link::LinkCounters`].

use netstack::wire::frame::NotOurs;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub polls: u64,
    pub frames_received: u64,
    pub frames_sent: u64,
    /// Not UDP over IP over Ethernet.
    pub other_protocols: u64,
    pub malformed: u64,
    pub fragments: u64,
    /// A wrong checksum of IP or UDP.
    pub bad_checksums: u64,
    /// From an address that no peer has.
    pub strangers: u64,
    /// The port had no room.
    pub port_full: u64,
    /// Looks at an endpoint's cursors.
    pub looks: u64,
    /// Wires that were tripped.
    pub wakes: u64,
    /// Endpoints whose program wrote nonsense.
    pub hostile: u64,
}

impl Counters {
    pub(crate) fn drop(&mut self, why: NotOurs) {
        let counter = match why {
            NotOurs::Protocol => &mut self.other_protocols,
            NotOurs::Malformed => &mut self.malformed,
            NotOurs::Fragment => &mut self.fragments,
            NotOurs::Checksum => &mut self.bad_checksums,
        };
        *counter += 1;
    }
}
