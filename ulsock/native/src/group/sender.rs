//! The sending half of a member: a message is written once, into the member's own ring, whoever reads it.

use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::error::GroupError;
use super::life::Life;
use super::member::Member;
use super::memory::longest;
use super::shared::{Note, Shared, lock};
use crate::timer::Timer;
use crate::wait::{Direction, Registration};

/// Sends to all other members.
pub struct Sender {
    shared: Arc<Shared>,
    _life: Arc<Life>,
    registration: Option<Registration>,
    timer: Option<Timer>,
}

/// What the sender waits for.
#[derive(Clone, Copy)]
enum Wish<'a> {
    Send(&'a [u8]),
    /// All have come to this position.
    Taken(u64),
}

/// A sender that is woken for one message would sleep again at once. So it sleeps until half of the ring is free, but not longer
/// than this if there is room for its message before.
const NAP: Duration = Duration::from_millis(1);

/// A wait of the sender.
struct Wait<'a> {
    wish: Wish<'a>,
    nap: Option<Instant>,
    /// Of its patience.
    end: Option<Instant>,
}

impl Wait<'_> {
    /// Until when it sleeps if nobody rings.
    fn until(&self) -> Option<Instant> {
        self.nap.or(self.end)
    }
}

impl Sender {
    pub(super) fn new(shared: &Arc<Shared>, life: &Arc<Life>) -> Sender {
        Sender {
            shared: shared.clone(),
            _life: life.clone(),
            registration: None,
            timer: None,
        }
    }

    /// The most bytes that a message can have.
    pub fn longest(&self) -> usize {
        longest(self.shared.ring.size())
    }

    /// All who get what is sent now; in a child of fork nobody does.
    pub fn members(&self) -> Vec<Member> {
        if self.shared.check().is_err() {
            return Vec::new();
        }
        lock(&self.shared.members).clone()
    }

    /// Sends a message to all members; waits while one of them has not taken what is in its place.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), GroupError> {
        match self.try_send(bytes)? {
            true => Ok(()),
            false => self.wait(Wish::Send(bytes)),
        }
    }

    /// The same for a task of any executor. Dropped before it is done, it has sent nothing.
    pub async fn send_async(&mut self, bytes: &[u8]) -> Result<(), GroupError> {
        match self.try_send(bytes)? {
            true => Ok(()),
            false => self.wait_async(Wish::Send(bytes)).await,
        }
    }

    /// The same without waiting: `false` if there is no room.
    #[inline]
    pub fn try_send(&mut self, bytes: &[u8]) -> Result<bool, GroupError> {
        self.shared.check()?;
        let most = self.longest();
        if bytes.len() > most {
            return Err(GroupError::TooLong { most });
        }
        if self.shared.has_ended() {
            return Err(GroupError::Ended);
        }
        let mut seats = lock(&self.shared.seats);
        let sent = seats.send(bytes);
        let (has_far, has_hostile) = (seats.has_far(), seats.has_hostile());
        drop(seats);
        if has_hostile {
            self.put_out_hostile();
        }
        if sent && has_far {
            self.shared.nudge();
        }
        Ok(sent)
    }

    /// Waits until all members have taken all that was sent so far.
    pub fn flush(&mut self) -> Result<(), GroupError> {
        let wish = self.all_so_far()?;
        match self.try_wish(wish)? {
            true => Ok(()),
            false => self.wait(wish),
        }
    }

    /// The same for a task of any executor.
    pub async fn flush_async(&mut self) -> Result<(), GroupError> {
        let wish = self.all_so_far()?;
        match self.try_wish(wish)? {
            true => Ok(()),
            false => self.wait_async(wish).await,
        }
    }

    fn all_so_far(&self) -> Result<Wish<'static>, GroupError> {
        // In a child of fork the lock may be taken for ever.
        self.shared.check()?;
        Ok(Wish::Taken(lock(&self.shared.seats).tail()))
    }

    fn try_wish(&mut self, wish: Wish<'_>) -> Result<bool, GroupError> {
        let position = match wish {
            Wish::Send(bytes) => return self.try_send(bytes),
            Wish::Taken(position) => position,
        };
        self.shared.check()?;
        if self.shared.has_ended() {
            return Err(GroupError::Ended);
        }
        let taken = lock(&self.shared.seats).have_come_to(position);
        self.put_out_hostile();
        Ok(taken)
    }

    fn put_out_hostile(&self) {
        let hostile = lock(&self.shared.seats).take_hostile();
        for number in hostile {
            self.shared.note(Note::PutOut(number));
        }
    }

    fn begin<'a>(&self, wish: Wish<'a>) -> Wait<'a> {
        lock(&self.shared.seats).watch();
        let naps = matches!(wish, Wish::Send(_));
        Wait {
            wish,
            nap: naps.then(|| Instant::now() + NAP),
            end: self.end_of_patience(),
        }
    }

    /// Everybody is to come here.
    fn wanted(&self, wish: Wish<'_>) -> u64 {
        match wish {
            Wish::Taken(position) => position,
            Wish::Send(bytes) => lock(&self.shared.seats).wanted(bytes.len()),
        }
    }

    /// Whether the wish has come true. Else the bell rings when it may have.
    fn try_wait(&mut self, wait: &Wait<'_>) -> Result<bool, GroupError> {
        let mut at = self.wanted(wait.wish);
        if wait.nap.is_some() {
            let half = self.shared.ring.size() / 2;
            at = at.max(lock(&self.shared.seats).tail().saturating_sub(half));
        }
        self.shared.ring.head().room.lie_down(at);
        let done = self.try_wish(wait.wish);
        if !matches!(done, Ok(false)) {
            self.shared.ring.head().room.get_up();
        }
        done
    }

    /// Nobody has rung until then.
    fn too_late(&self, wait: &mut Wait<'_>) {
        if wait.nap.take().is_none() {
            self.put_out_idle(self.wanted(wait.wish));
            wait.end = self.end_of_patience();
        }
    }

    fn wait(&mut self, wish: Wish<'_>) -> Result<(), GroupError> {
        let mut wait = self.begin(wish);
        while !self.try_wait(&wait)? {
            match wait.until() {
                Some(until) if until <= Instant::now() => self.too_late(&mut wait),
                until => sleep(&self.shared.sender_bell, until)?,
            }
        }
        Ok(())
    }

    async fn wait_async(&mut self, wish: Wish<'_>) -> Result<(), GroupError> {
        let mut wait = self.begin(wish);
        poll_fn(|task| self.poll_wait(task, &mut wait)).await
    }

    fn poll_wait(
        &mut self,
        task: &Context<'_>,
        wait: &mut Wait<'_>,
    ) -> Poll<Result<(), GroupError>> {
        while !self.try_wait(wait)? {
            if let Some(until) = wait.until()
                && self.poll_time(task, until)?.is_ready()
            {
                self.too_late(wait);
                continue;
            }
            if self.poll_bell(task)?.is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_time(&mut self, task: &Context<'_>, end: Instant) -> Result<Poll<()>, GroupError> {
        let timer = match &mut self.timer {
            Some(timer) => timer,
            none => none.insert(Timer::new()?),
        };
        Ok(timer.poll_until(task, end)?)
    }

    /// Whether it has rung.
    fn poll_bell(&mut self, task: &Context<'_>) -> Result<Poll<()>, GroupError> {
        let bell = &self.shared.sender_bell;
        let registration = match &self.registration {
            Some(registration) => registration,
            None => self.registration.insert(Registration::new(bell, false)?),
        };
        match registration.poll(Direction::In, task, |_| take_rings(bell)) {
            Poll::Ready(rung) => Ok(Poll::Ready(rung?)),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    fn end_of_patience(&self) -> Option<Instant> {
        Instant::now().checked_add(self.shared.options.patience?)
    }

    fn put_out_idle(&self, position: u64) {
        let idle = lock(&self.shared.seats).remove_idle(position);
        lock(&self.shared.members).retain(|member| !idle.contains(&member.number));
        for number in idle {
            self.shared.note(Note::PutOut(number));
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if let Some(registration) = &self.registration {
            registration.end(&self.shared.sender_bell);
        }
    }
}

pub fn take_rings(bell: &OwnedFd) -> std::io::Result<()> {
    rustix::io::read(bell, &mut [0; 8])?;
    Ok(())
}

/// Sleeps until the bell has rung, or until then.
pub fn sleep(bell: &OwnedFd, end: Option<Instant>) -> Result<(), GroupError> {
    let left = end.map(|end| end.saturating_duration_since(Instant::now()));
    // Not less than the kernel's clock can tell.
    let left = left.map(|left| left.max(Duration::from_micros(1)));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    match poll(&mut [PollFd::new(bell, PollFlags::IN)], left.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let _ = take_rings(bell);
    Ok(())
}
