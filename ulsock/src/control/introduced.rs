//! Programs in other containers, and the daemon of the host that introduces them to us.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::meet::PATIENCE;
use super::Control;
use crate::broker::{News, OtherEnd};
use crate::pair::Pair;
use crate::reason::Reason;

impl Control {
    /// Is there a daemon of the host that could find somebody?
    pub fn has_broker(&mut self) -> bool {
        self.broker.is_there(&self.dir)
    }

    /// Takes what the daemon of the host has said: gives the records whose other ends are known now, and those
    /// that it can do nothing for.
    pub fn hear_broker(&mut self) -> (Vec<u32>, Vec<(u32, Reason)>) {
        let News {
            found,
            refused,
            claimers,
        } = self.broker.hear();
        self.incoming.extend(claimers);
        let awaited = found.iter().map(|number| (*number, PATIENCE));
        self.meeting.wanted.extend(awaited);
        (found, refused)
    }

    /// The daemon of the host looks for the other end of this connection: is its answer to be expected at the
    /// next call?
    pub fn is_sought(&mut self, number: u32) -> Option<bool> {
        self.broker.may_answer_soon(number)
    }

    /// Lets the daemon of the host look for the other end of a connection; `false`: it cannot.
    pub fn seek(
        &mut self,
        number: u32,
        cookie: u64,
        connected: bool,
        socket: BorrowedFd<'_>,
    ) -> bool {
        !self.broker.has_refused(number) && self.broker.seek(number, cookie, connected, socket)
    }

    /// The daemon of the host has said that another host has this address.
    pub fn note_other_host(&mut self, ip: IpAddr) {
        self.broker.note_other_host(ip);
    }

    /// Has it said so lately?
    pub fn is_other_host(&self, ip: IpAddr) -> bool {
        self.broker.is_other_host(ip)
    }

    /// The other end of a connection, as the daemon of the host has found it.
    pub fn introduced(&self, number: u32) -> Option<OtherEnd> {
        self.broker.other_end(number).cloned()
    }

    /// Does it say that the socket with this cookie, of the process behind `pair`, is the other end of ours?
    pub fn is_vouched_for(&self, number: u32, pair: &Arc<Pair>, cookie: u64) -> bool {
        let other = self.broker.other_end(number);
        other.is_some_and(|other| Arc::ptr_eq(&other.pair, pair) && other.cookie == cookie)
    }
}
