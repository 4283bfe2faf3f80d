//! The members that this one cannot write to in shared memory, by hosts: each host gets one copy of what is sent, by a member of
//! it, the relay. When that is gone another one takes its place, from the first byte on that somebody there has not taken.

use std::collections::HashMap;
use std::net::IpAddr;

/// Those who can read one relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    Host(IpAddr),
    /// One that cannot read any other.
    Alone(u32),
}

#[derive(Debug)]
pub struct Island {
    pub members: Vec<u32>,
    pub relay: u32,
    /// All before this is on its way to the relay.
    pub sent: u64,
}

#[derive(Debug, Default)]
pub struct Islands(HashMap<Key, Island>);

impl Islands {
    /// A member is there from `start` on: who relays for it, from which position on if it does so itself.
    pub fn add(&mut self, key: Key, number: u32, start: u64) -> &Island {
        let island = self.0.entry(key).or_insert(Island {
            members: Vec::new(),
            relay: number,
            sent: start,
        });
        island.members.push(number);
        island
    }

    /// A member is gone. If it was a relay, and somebody is left there: the key of that island, which needs another one.
    pub fn remove(&mut self, number: u32) -> Option<Key> {
        let (key, island) = self
            .0
            .iter_mut()
            .find(|(_, island)| island.members.contains(&number))?;
        let key = *key;
        island.members.retain(|member| *member != number);
        if island.members.is_empty() {
            self.0.remove(&key);
            return None;
        }
        (island.relay == number).then_some(key)
    }

    /// The member with the lowest number becomes the relay; all is sent again that somebody there may need.
    pub fn elect(&mut self, key: Key, taken: impl Fn(u32) -> Option<u64>) -> Option<&Island> {
        let island = self.0.get_mut(&key)?;
        island.relay = island.members.iter().copied().min()?;
        let positions = island.members.iter().filter_map(|member| taken(*member));
        island.sent = positions.min()?;
        Some(island)
    }

    /// What this relay is to be sent next: from which position on, so many bytes at most.
    pub fn next_chunk(&mut self, relay: u32, tail: u64, most: u64) -> Option<(u64, usize)> {
        let mut all = self.0.values_mut();
        let island = all.find(|island| island.relay == relay && island.sent < tail)?;
        let (at, len) = (island.sent, (tail - island.sent).min(most));
        island.sent += len;
        Some((at, len as usize))
    }

    pub fn relays(&self) -> Vec<u32> {
        self.0.values().map(|island| island.relay).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_next_relay_gets_what_somebody_may_lack() {
        let key = Key::Host(Ipv4Addr::LOCALHOST.into());
        let mut islands = Islands::default();
        assert_eq!(islands.add(key, 7, 80).relay, 7);
        assert_eq!(islands.add(key, 5, 96).relay, 7);
        assert_eq!(islands.add(key, 6, 160).relay, 7);
        assert_eq!(islands.add(Key::Alone(4), 4, 160).relay, 4);
        assert_eq!(islands.next_chunk(7, 200, 100), Some((80, 100)));
        assert_eq!(islands.next_chunk(7, 200, 100), Some((180, 20)));
        assert_eq!(islands.next_chunk(7, 200, 100), None);
        assert_eq!(islands.next_chunk(5, 200, 100), None);
        assert_eq!(islands.remove(7), Some(key));
        let taken = |number| Some(if number == 5 { 120 } else { 168 });
        let island = islands.elect(key, taken).expect("two are left");
        assert_eq!((island.relay, island.sent), (5, 120));
        assert_eq!(islands.remove(6), None);
        assert_eq!(islands.remove(5), None);
        assert_eq!(islands.relays(), [4]);
    }
}
