//! The windows that the two ends of a pair show each other, if they are of different network namespaces.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use super::Pair;
use crate::mailbox_name::MailboxName;
use crate::message::Message;
use os::window::Window;

/// Looks for a window at every call, and then before we ask for it again.
const LOOKS_FOR_WINDOW: u32 = 64;

impl Pair {
    pub fn window(&self) -> Option<&Window> {
        self.window.get()?.as_ref()
    }

    /// What it has shown was not to be trusted.
    pub fn is_suspect(&self) -> bool {
        self.window.get().is_some_and(Option::is_none)
    }

    /// The first one counts.
    pub fn keep_window(&self, window: Option<Window>) {
        let _ = self.window.set(window);
    }

    /// Claiming side: lets the peer look into our network namespace, so that it does the same; again
    /// after some looks without a window of its. `false` if it cannot be told.
    pub fn show_window(&self, offer_cookie: u64, mailbox: MailboxName) -> bool {
        if !self
            .missed
            .load(Ordering::Relaxed)
            .is_multiple_of(LOOKS_FOR_WINDOW)
        {
            return true;
        }
        let message = Message::Window {
            offer_cookie,
            mailbox,
            returned: false,
        };
        Window::open().is_ok_and(|ours| self.tell(&message, Some(ours.as_fd())))
    }

    /// There is none yet: is it worth a look at every call? Only while it can be expected.
    pub fn may_show_soon(&self) -> bool {
        self.missed.fetch_add(1, Ordering::Relaxed) < LOOKS_FOR_WINDOW
    }

    /// It is of another network namespace, which we keep alive, and is gone.
    pub fn has_left_its_namespace(&self) -> bool {
        self.window().is_some() && self.channel.has_ended()
    }
}
