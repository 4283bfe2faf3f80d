//! Where a process keeps what others may fetch: a mailbox of its own in the run directory, made when it is first needed, and a
//! thread that serves it. Who comes has a second to ask, and is not kept longer.

use std::collections::HashMap;
use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use os::fds::InternalFd;
use rendezvous::channel::Channel;
use rendezvous::mailbox::Mailbox;
use rendezvous::rundir::RunDir;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::fetch::is_of_our_user;
use super::parcel::{self, MOST};
use super::ticket::{Secret, Ticket};
use crate::start::{Hooks, generation, spawn_thread, start_with};

/// Who have connected and not yet asked. If there are more, the oldest goes.
const MOST_WAITING: usize = 64;
const PATIENCE: Duration = Duration::from_secs(1);

/// If there is no descriptor left for those who come.
const PAUSE: Duration = Duration::from_millis(20);

/// How often a ticket serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uses {
    Once,
    Any,
}

#[derive(Debug)]
struct Kept {
    fds: Arc<[InternalFd]>,
    uses: Uses,
}

#[derive(Debug)]
pub struct Counter {
    mailbox: Mailbox,
    kept: Mutex<HashMap<[u8; 16], Kept>>,
    is_served: AtomicBool,
    /// Of the process whose it is: a child of fork has none of its parent's.
    generation: u32,
}

/// The counter of this process. Never freed.
static OWN: AtomicPtr<Counter> = AtomicPtr::new(null_mut());

fn own() -> Option<&'static Counter> {
    // SAFETY: what was stored is never freed.
    let own = unsafe { OWN.load(Ordering::Acquire).as_ref() };
    own.filter(|counter| counter.generation == generation())
}

impl Counter {
    pub fn open(dir: &RunDir) -> io::Result<Counter> {
        start_with(Hooks {
            in_child: after_fork,
            at_exit: exiting,
        });
        // What others have left who were killed.
        dir.sweep();
        Ok(Counter {
            mailbox: Mailbox::create(dir)?,
            kept: Mutex::default(),
            is_served: AtomicBool::new(false),
            generation: generation(),
        })
    }

    /// Made if need be. Without a lock, which a fork could find taken.
    pub fn of_this_process(
        make: impl FnOnce() -> io::Result<Counter>,
    ) -> io::Result<&'static Counter> {
        if let Some(own) = own() {
            return Ok(own);
        }
        let fresh = Box::into_raw(Box::new(make()?));
        match OWN.compare_exchange(null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: from now on it is never freed.
            Ok(_) => Ok(unsafe { &*fresh }),
            Err(other) => {
                // SAFETY: stored nowhere. The other one is never freed.
                unsafe {
                    drop(Box::from_raw(fresh));
                    Ok(&*other)
                }
            }
        }
    }

    pub fn deposit(&'static self, fds: Vec<InternalFd>, uses: Uses) -> io::Result<Deposit> {
        if fds.is_empty() || fds.len() > MOST {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.serve_if_need_be()?;
        let secret = Secret::new()?;
        let fds = fds.into();
        self.kept().insert(secret.0, Kept { fds, uses });
        let mailbox = self.mailbox.name();
        Ok(Deposit {
            counter: self,
            ticket: Ticket { mailbox, secret },
        })
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<[u8; 16], Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve_if_need_be(&'static self) -> io::Result<()> {
        if self.is_served.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        spawn_thread("ulsock-share", move || Clerk::new(self).run())
            .inspect_err(|_| self.is_served.store(false, Ordering::Release))
    }

    fn find(&self, secret: &Secret) -> Option<Arc<[InternalFd]>> {
        let mut all = self.kept();
        let kept = all.get(&secret.0)?;
        match kept.uses {
            Uses::Any => Some(kept.fds.clone()),
            Uses::Once => all.remove(&secret.0).map(|kept| kept.fds),
        }
    }
}

/// Descriptors that can be fetched as long as this lives.
#[derive(Debug)]
pub struct Deposit {
    counter: &'static Counter,
    ticket: Ticket,
}

impl Deposit {
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Whether there is something to be fetched with its ticket. Not, if that is for one and he has come.
    pub fn is_left(&self) -> bool {
        let is_ours = self.counter.generation == generation();
        let secret = &self.ticket.secret.0;
        is_ours && self.counter.kept().contains_key(secret)
    }
}

impl Drop for Deposit {
    fn drop(&mut self) {
        // In a child of fork a thread of the parent may have held the lock.
        if self.counter.generation == generation() {
            let kept = self.counter.kept().remove(&self.ticket.secret.0);
            drop(kept);
        }
    }
}

/// Who serves.
struct Clerk {
    counter: &'static Counter,
    waiting: Vec<(Channel, Instant)>,
    /// Somebody could not be let in.
    is_short: bool,
}

impl Clerk {
    fn new(counter: &'static Counter) -> Clerk {
        Clerk {
            counter,
            waiting: Vec::new(),
            is_short: false,
        }
    }

    fn run(mut self) {
        loop {
            self.wait();
            self.let_in();
            let now = Instant::now();
            let counter = self.counter;
            self.waiting
                .retain(|(channel, until)| !answer(counter, channel) && now < *until);
        }
    }

    fn wait(&self) {
        let doors = self.counter.mailbox.sockets();
        let doors = doors.filter(|_| !self.is_short);
        let doors = doors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let channels = self.waiting.iter();
        let channels = channels.map(|(channel, _)| PollFd::new(channel, PollFlags::IN));
        let mut all: Vec<_> = doors.chain(channels).collect();
        let first = self.waiting.first().map(|(_, until)| *until);
        let left = first.map(|until| until.saturating_duration_since(Instant::now()));
        let left = match self.is_short {
            true => Some(left.unwrap_or(PAUSE).min(PAUSE)),
            false => left,
        };
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        // An error leaves everything as it is, and does not come again at once.
        if poll(&mut all, left.as_ref()).is_err_and(|errno| errno != Errno::INTR) {
            std::thread::sleep(PAUSE);
        }
    }

    fn let_in(&mut self) {
        for _ in 0..MOST_WAITING {
            match self.counter.mailbox.accept() {
                Ok(Some(channel)) if is_of_our_user(&channel) => {
                    self.waiting.push((channel, Instant::now() + PATIENCE));
                }
                Ok(Some(_stranger)) => {}
                Ok(None) => return self.is_short = false,
                Err(_) => return self.is_short = true,
            }
            if self.waiting.len() > MOST_WAITING {
                self.waiting.remove(0);
            }
        }
    }
}

/// Gives what is asked for. Whether that is the end of this channel: so it is for him who asks for what is not there.
fn answer(counter: &Counter, channel: &Channel) -> bool {
    match parcel::asked(channel) {
        Err(Errno::AGAIN | Errno::INTR) => return false,
        Err(_) => {}
        Ok(secret) => {
            if let Some(fds) = counter.find(&secret) {
                let _ = parcel::give(channel, &fds);
            }
        }
    }
    true
}

/// In a child of fork: it does not answer for its parent, nor keep its mailbox alive.
fn after_fork() {
    let inherited = OWN.swap(null_mut(), Ordering::AcqRel);
    if !inherited.is_null() {
        // SAFETY: never freed; and this thread, the only one, was not in there, nor will anybody be: the mailbox is used only by
        // the thread that serves it, and by who finds it in `OWN`.
        drop(unsafe { std::ptr::read(&raw const (*inherited).mailbox) });
    }
}

/// At the end of the process: the run directory is as before.
fn exiting() {
    if let Some(own) = own() {
        own.mailbox.remove_files();
    }
}
