//! How processes in two network namespaces of a host get to look into each other's.
//!
//! The claiming side shows its window over the channel of the pair. The offering side returns the
//! call: it opens a channel to the claiming side's mailbox and shows its own there, because a window is
//! judged by a channel that one has accepted ([`Window::adopt`]). The pair then keeps both; the channel
//! of the returned call goes.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::Control;
use os::window::Window;
use rendezvous::channel::Channel;
use rendezvous::mailbox::MailboxName;
use rendezvous::message::Message;
use rendezvous::offers::{self, Key, Offer};
use rendezvous::pair::{Mail, Pair};

/// Users whose tables are looked through for an offer of nobody knows whom.
const MOST_USERS: usize = 64;
/// Milliseconds before we look again who has one.
const LIST_AGE: u64 = 10;
/// Letters that are read at a look: each costs a dozen system calls.
const MOST_LETTERS: usize = 16;
/// Calls that have been returned and that nobody has taken yet.
const MOST_CALLS: usize = 64;
/// Looks for the claim that follows, one at each call.
pub(super) const LOOKS_FOR_CLAIM: u32 = 16;

/// What [`Control`] keeps for it.
#[derive(Default)]
pub(super) struct Meeting {
    /// Who has a table in the run directory, and when we looked.
    users: Vec<u32>,
    listed: u64,
    calls: Vec<Channel>,
    /// Connections of ours that somebody is about to claim, by record number, and for how many more
    /// calls they expect it.
    pub(super) wanted: HashMap<u32, u32>,
}

impl Meeting {
    pub(super) fn forget(&mut self, number: u32) {
        self.wanted.remove(&number);
    }
}

impl Control {
    /// All offers for a connection whose other end we cannot see, each with the user whose it is. Only
    /// one of them can be genuine; anybody can make the others.
    pub fn offers_of_any(&mut self, key: &Key) -> Vec<(Offer, u32)> {
        let known = self.offers_of(key);
        let now = os::clock::coarse_ms();
        if !known.is_empty() || now < self.meeting.listed + LIST_AGE {
            return known;
        }
        self.meeting.listed = now;
        self.meeting.users = offers::users(self.dir(), MOST_USERS);
        self.offers_of(key)
    }

    /// No user has made an offer of it, as far as we can look through their tables.
    pub fn is_offered_by_nobody(&mut self, key: &Key) -> bool {
        self.offers_of_any(key).is_empty() && self.meeting.users.len() < MOST_USERS
    }

    fn offers_of(&mut self, key: &Key) -> Vec<(Offer, u32)> {
        let users = self.meeting.users.clone();
        let offer = |uid| self.find_offer(key, uid).map(|offer| (offer, uid));
        users.into_iter().filter_map(offer).collect()
    }

    /// Claiming side: makes sure that `pair` knows who we are, and will let us look.
    pub fn ask_to_look(&mut self, pair: &Pair, offer: &Offer) -> bool {
        let mailbox = self.mailbox();
        mailbox.is_some_and(|mailbox| pair.show_window(offer.cookie, mailbox))
    }

    /// Takes the windows that have come; gives the records that somebody is about to claim.
    pub fn take_windows(&mut self, pairs: &[Arc<Pair>]) -> Vec<u32> {
        self.meeting.calls.retain(|call| !call.has_ended());
        let letters = pairs.iter().flat_map(|pair| {
            let next = move || pair.next_mail().map(|mail| (pair, mail));
            std::iter::from_fn(next)
        });
        let take = |(pair, mail)| self.take_window(pair, mail);
        let wanted: Vec<u32> = letters.take(MOST_LETTERS).filter_map(take).collect();
        self.incoming.retain(|pair| !pair.is_dead());
        let awaited = wanted.iter().map(|number| (*number, LOOKS_FOR_CLAIM));
        self.meeting.wanted.extend(awaited);
        wanted
    }

    /// Offering side: is the claim of this connection to be expected at its next call?
    pub fn is_wanted(&mut self, number: u32) -> bool {
        let left = self.meeting.wanted.get_mut(&number);
        left.is_some_and(|left| {
            *left = left.saturating_sub(1);
            *left > 0
        })
    }

    fn take_window(&mut self, pair: &Arc<Pair>, mail: Mail) -> Option<u32> {
        let Mail::Window {
            offer_cookie,
            mailbox,
            returned,
            window,
        } = mail
        else {
            return None;
        };
        let window = Window::adopt(window, pair.channel(), pair.peer().uid).ok();
        if returned {
            pair.end();
            let asked = self.outgoing.get(&mailbox);
            let asked = asked.filter(|asked| asked.peer().uid == pair.peer().uid)?;
            asked.keep_window(window);
            return None;
        }
        pair.keep_window(window);
        pair.window()?;
        self.return_call(pair, mailbox, offer_cookie)?;
        self.offered(offer_cookie)
    }

    /// A network namespace lives as long as anybody holds a socket of it: lets go of those whose
    /// processes are gone.
    pub(super) fn leave_namespaces(&mut self) {
        self.incoming.retain(|pair| !pair.has_left_its_namespace());
        self.outgoing
            .retain(|_, pair| !pair.has_left_its_namespace());
    }

    fn return_call(&mut self, pair: &Pair, to: MailboxName, offer_cookie: u64) -> Option<()> {
        let message = Message::Window {
            offer_cookie,
            mailbox: self.mailbox()?,
            returned: true,
        };
        let call = Channel::connect(self.dir(), to).ok()?;
        if call.peer().ok()?.uid != pair.peer().uid {
            return None;
        }
        let window = Window::open().ok()?;
        call.send(&message, Some(window.as_fd())).ok()?;
        let calls = &mut self.meeting.calls;
        if calls.len() >= MOST_CALLS {
            calls.remove(0);
        }
        calls.push(call);
        Some(())
    }
}
