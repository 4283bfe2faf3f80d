//! Fetching: connects to the giver, shows the ticket, and waits for the descriptors, but never long.

use std::thread;
use std::time::{Duration, Instant};

use os::fds::InternalFd;
use os::users::names_one_user;
use rendezvous::channel::Channel;
use rendezvous::rundir::RunDir;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::time::Timespec;

use super::error::FetchError;
use super::parcel;
use super::ticket::Ticket;

/// A giver that lives answers at once; one that is stopped, or of ill will, does not hold us up for longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// If many are before us at the giver's door.
const PAUSE: Duration = Duration::from_millis(2);

pub fn fetch(dir: &RunDir, ticket: &Ticket, count: usize) -> Result<Vec<InternalFd>, FetchError> {
    fetch_within(dir, ticket, count, PATIENCE)
}

pub fn fetch_within(
    dir: &RunDir,
    ticket: &Ticket,
    count: usize,
    time: Duration,
) -> Result<Vec<InternalFd>, FetchError> {
    let end = Instant::now() + time.min(PATIENCE);
    let channel = connect(dir, ticket, end)?;
    if !is_of_our_user(&channel) {
        return Err(FetchError::Stranger);
    }
    parcel::ask(&channel, &ticket.secret)?;
    loop {
        if let Some(fds) = parcel::take(&channel, count)? {
            return Ok(fds);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(FetchError::TimedOut);
        }
        let left = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&channel, PollFlags::IN)], left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn connect(dir: &RunDir, ticket: &Ticket, end: Instant) -> Result<Channel, FetchError> {
    loop {
        match Channel::connect(dir, ticket.mailbox) {
            Err(Errno::AGAIN) if Instant::now() < end => thread::sleep(PAUSE),
            Err(Errno::AGAIN) => return Err(FetchError::TimedOut),
            other => return Ok(other?),
        }
    }
}

/// The kernel's word, of when the other end connected or began to listen. A user that this user namespace cannot tell from
/// others is a stranger.
pub fn is_of_our_user(channel: &Channel) -> bool {
    let ours = geteuid().as_raw();
    channel
        .peer()
        .is_ok_and(|peer| peer.uid == ours && names_one_user(ours))
}
