//! The other ports of the group, and the ways to them.
//!
//! A port is known by the hardware address that stands in its aperture: frames to it go into the ring there
//! that is ours.

use core::sync::atomic::Ordering;
use std::sync::Arc;
use std::vec::Vec;

use rustix::io;

use super::IvshmemOptions;
use super::card::Card;
use super::device::Device;
use super::lane::{Outgoing, word};
use super::layout::ASLEEP_AT;
use super::uapi::{Info, Lookup, State};
use crate::phy::sys::Map;

/// Another port.
#[derive(Debug)]
struct Member {
    /// Which machine, which of its ports, and which start of it.
    slot: u64,
    service: u64,
    incarnation: u64,
    connection: u64,
    card: Card,
    /// Bytes of its aperture.
    length: u64,
    map: Arc<Map>,
    lane: Outgoing,
}

#[derive(Debug)]
pub struct Group {
    services: Vec<u64>,
    slot: u64,
    service: u64,
    members: Vec<Member>,
}

impl Group {
    pub fn new(options: &IvshmemOptions, slot: u64) -> Group {
        Group {
            services: options.services.clone(),
            slot,
            service: options.service,
            members: Vec::new(),
        }
    }

    /// Which ring of an aperture is that of a port. `None`: it is none of the group's.
    fn lane(&self, slot: u64, service: u64) -> Option<usize> {
        let port = self.services.iter().position(|it| *it == service)?;
        Some(slot as usize * self.services.len() + port)
    }

    /// Sends a frame to the member with this address. `false`: no known member has it.
    pub fn send(&mut self, address: [u8; 6], frame: &[u8]) -> bool {
        let mut members = self.members.iter_mut();
        let Some(member) = members.find(|it| it.card.address == address) else {
            return false;
        };
        member.lane.put(frame);
        true
    }

    /// Shows what was sent, and wakes the members that sleep; returns the number of system calls.
    pub fn publish(&mut self, device: &Device) -> u64 {
        let mut calls = 0;
        let mut lost = Vec::new();
        for member in &mut self.members {
            if !member.lane.publish() {
                continue;
            }
            // [`super::Ivshmem::lie_down`] has the other fence.
            core::sync::atomic::fence(Ordering::SeqCst);
            if word(&member.map, ASLEEP_AT).load(Ordering::Relaxed) != 0 {
                calls += 1;
                if device.ring(member.connection).is_err() {
                    lost.push(member.connection);
                }
            }
        }
        self.part(device, |member| lost.contains(&member.connection));
        calls
    }

    /// Looks for new and for gone members.
    pub fn look(&mut self, device: &Device) -> io::Result<()> {
        let info = device.info()?;
        self.part(device, |member| !lives(&info, member));
        let slots = info.incarnation.iter().enumerate();
        let live = slots.filter(|(_, incarnation)| **incarnation != 0);
        for (slot, _) in live {
            for service in self.services.clone() {
                self.meet(device, slot as u64, service);
            }
        }
        Ok(())
    }

    /// Gives up those that say something else of themselves than when we met: what we know of them may be rubbish that
    /// somebody wrote there.
    pub fn check(&mut self, device: &Device) {
        self.part(device, |member| !member.is_as_we_met());
    }

    /// Those that are gone.
    pub fn bury(&mut self, device: &Device, state: &State) {
        let dead = state.closed | state.reset;
        self.part(device, |member| dead >> member.connection & 1 != 0);
    }

    fn part(&mut self, device: &Device, is_gone: impl Fn(&Member) -> bool) {
        let (gone, left) = std::mem::take(&mut self.members)
            .into_iter()
            .partition(|member| is_gone(member));
        self.members = left;
        let gone: Vec<Member> = gone;
        for connection in gone.into_iter().map(|member| member.connection) {
            // Its mapping is dropped by now.
            device.disconnect(connection);
        }
    }

    /// Connects to a port, if it is there and new.
    fn meet(&mut self, device: &Device, slot: u64, service: u64) {
        let known = |it: &Member| (it.slot, it.service) == (slot, service);
        if (slot, service) == (self.slot, self.service) || self.members.iter().any(known) {
            return;
        }
        let Ok(found) = device.look_up(slot, service) else {
            return;
        };
        let Ok(connect) = device.connect(&found) else {
            return;
        };
        let lane = self.lane(self.slot, self.service);
        let member = device.map(&connect).ok().zip(lane).and_then(|(map, lane)| {
            Member::read(map, &found, connect.connection, connect.length, lane)
        });
        match member {
            Some(member) => self.members.push(member),
            None => device.disconnect(connect.connection),
        }
    }
}

/// Whether it is the same start of the machine.
fn lives(info: &Info, member: &Member) -> bool {
    let incarnation = info.incarnation.get(member.slot as usize);
    incarnation.is_some_and(|it| *it == member.incarnation)
}

impl Member {
    /// `None`: it is not ready, or speaks another language.
    fn read(map: Map, found: &Lookup, connection: u64, length: u64, lane: usize) -> Option<Member> {
        let card = Card::read(&map, length)?;
        if lane >= card.layout.lanes {
            return None;
        }
        let map = Arc::new(map);
        Some(Member {
            slot: found.slot,
            service: found.service,
            incarnation: found.incarnation,
            connection,
            card,
            length,
            lane: Outgoing::new(map.clone(), card.layout, lane),
            map,
        })
    }

    fn is_as_we_met(&self) -> bool {
        Card::read(&self.map, self.length) == Some(self.card)
    }
}
