//! What has not succeeded is tried again: to meet a member while its name is there, and to read a sender by a relay that is not
//! to be reached.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::link::Link;
use super::state::Agent;
use crate::group::wire::Said;
use crate::message::MessageError;
use crate::timer::Timer;

/// Before the second attempt to meet somebody; twice as long before each further one.
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(10);

/// Who has not answered a hello by then may not have got it: without descriptors he cannot even accept, and hears of us again
/// only by another connection.
const SILENCE: Duration = Duration::from_secs(5);

/// A sender hears as we do that a relay is gone, and names another one. After this it has not.
pub const ANOTHER: Duration = Duration::from_secs(1);

/// When something is to be tried again.
pub struct Again {
    timer: RefCell<Option<Timer>>,
    due: Cell<Option<Instant>>,
    waker: Cell<Option<Waker>>,
}

impl Again {
    pub fn new(timer: Timer) -> Again {
        Again {
            timer: RefCell::new(Some(timer)),
            due: Cell::new(None),
            waker: Cell::new(None),
        }
    }

    /// Not later than then.
    pub fn at(&self, when: Instant) {
        if self.due.get().is_some_and(|due| due <= when) {
            return;
        }
        self.due.set(Some(when));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub fn poll(&self, task: &mut Context<'_>) -> Poll<()> {
        self.waker.set(Some(task.waker().clone()));
        let mut timer = self.timer.borrow_mut();
        let (Some(timer), Some(due)) = (&mut *timer, self.due.get()) else {
            return Poll::Pending;
        };
        match timer.poll_until(task, due) {
            Ok(Poll::Ready(())) => {
                self.due.set(None);
                Poll::Ready(())
            }
            _ => Poll::Pending,
        }
    }

    /// Nothing is tried any more.
    pub fn end(&self) -> Option<Timer> {
        self.timer.borrow_mut().take()
    }
}

/// How we are about to meet a member to which we connect.
pub struct Meeting {
    attempts: u32,
    progress: Progress,
}

enum Progress {
    Later(Instant),
    Connects,
    /// It is to answer until then.
    Said(Rc<Link>, Instant),
}

impl Meeting {
    pub fn new() -> Meeting {
        Meeting {
            attempts: 0,
            progress: Progress::Later(Instant::now()),
        }
    }

    fn due(&self) -> Option<Instant> {
        match &self.progress {
            Progress::Later(at) | Progress::Said(_, at) => Some(*at),
            Progress::Connects => None,
        }
    }
}

impl Agent {
    /// Whatever is due.
    pub fn try_again(self: &Rc<Agent>) {
        let now = Instant::now();
        let (mut later, mut silent) = (Vec::new(), Vec::new());
        for (number, meeting) in &*self.meetings.borrow() {
            match &meeting.progress {
                Progress::Later(at) if *at <= now => later.push(*number),
                Progress::Said(link, until) if *until <= now => silent.push(link.clone()),
                _ => {}
            }
        }
        for link in silent {
            link.peer.fail(MessageError::PeerGone);
        }
        for number in later {
            self.set_progress(number, Progress::Connects);
            self.connect(number);
        }
        self.leave_lost_relays(now);
        let dues: Vec<Instant> = {
            let meetings = self.meetings.borrow();
            let feeds = self.feeds.borrow();
            let meetings = meetings.values().filter_map(Meeting::due);
            let feeds = feeds.values().filter_map(|feed| feed.lost_until);
            meetings.chain(feeds).filter(|due| *due > now).collect()
        };
        if let Some(due) = dues.into_iter().min() {
            self.again.at(due);
        }
    }

    /// Senders whose relays we cannot read send to us alone.
    fn leave_lost_relays(&self, now: Instant) {
        let is_due = |until: Instant| until <= now;
        let mut lost = Vec::new();
        for (sender, feed) in &mut *self.feeds.borrow_mut() {
            if feed.lost_until.take_if(|until| is_due(*until)).is_some() && feed.is_live {
                lost.push((*sender, feed.relay));
            }
        }
        for (sender, relay) in lost {
            if self.member(relay).is_none()
                && let Some(link) = self.member(sender)
            {
                link.say(Said::Alone);
            }
        }
    }

    fn set_progress(&self, number: u32, progress: Progress) {
        if let Some(meeting) = self.meetings.borrow_mut().get_mut(&number) {
            meeting.progress = progress;
        }
    }

    /// It has our hello.
    pub fn has_said_hello(&self, number: u32, link: &Rc<Link>) {
        let until = Instant::now() + SILENCE;
        self.set_progress(number, Progress::Said(link.clone(), until));
        self.again.at(until);
    }

    /// The connection could not be made.
    pub fn not_connected(&self, number: u32) {
        if let Some(meeting) = self.meetings.borrow_mut().get_mut(&number) {
            let pause = FIRST.saturating_mul(1 << meeting.attempts.min(16));
            meeting.attempts += 1;
            let at = Instant::now() + pause.min(LONGEST);
            meeting.progress = Progress::Later(at);
            self.again.at(at);
        }
    }

    /// The link has ended before we have met.
    pub fn not_met(&self, link: &Rc<Link>) {
        let is_this = |meeting: &Meeting| matches!(&meeting.progress, Progress::Said(said, _) if Rc::ptr_eq(said, link));
        let number = link.place.get().map(|place| place.instance);
        let number =
            number.filter(|number| self.meetings.borrow().get(number).is_some_and(is_this));
        if let Some(number) = number {
            self.not_connected(number);
        }
    }
}
