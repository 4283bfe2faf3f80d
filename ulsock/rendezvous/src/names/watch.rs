//! Who waits for names to appear and disappear: one descriptor, which is ready when there may be something to tell.
//!
//! The kernel tells of every file that gets its name, is removed, or is closed by its last writer, which is its owner: so a
//! process that is killed is told of at once, whatever user or pid namespace it was in. What has happened is then seen by a look
//! at the file; the events only say where to look.

use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use os::fds::{InternalFd, to_high};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::{self, Errno};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::directory::Directory;
use super::folder::{Folder, is_lack};
use super::label::{Label, Service};
use super::record::Record;

/// A file that is closed at the end of a process loses its lock a moment after the event (fs/file_table.c, `__fput`); on a
/// host without free CPUs that moment can be long. So what is still locked is looked at again, so late.
const DOUBTS: [Duration; 5] = [
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(10),
];

/// Which of them it is where nobody could look, until somebody can.
const AFTER_LACK: usize = 2;

/// Between two events of the run directory that are heard: everybody can cause them.
const PAUSE: Duration = Duration::from_millis(50);

/// What a user's folder may have that is remembered.
const MOST_KNOWN: usize = 1 << 14;

#[derive(Clone, Debug)]
pub struct Interest {
    /// `None`: every one.
    pub service: Option<Service>,
    pub instances: RangeInclusive<u32>,
}

impl Interest {
    fn includes(&self, label: &Label) -> bool {
        let is_it = |service: Service| service == label.service;
        self.service.is_none_or(is_it) && self.instances.contains(&label.instance)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Appeared(Record),
    Disappeared(Record),
}

/// The file of a label in the folder of a user.
type Key = (u32, Label);

/// A folder that the kernel tells of.
#[derive(Clone, Copy, Debug)]
struct Watched {
    uid: u32,
    /// Device and number of the folder itself.
    inode: (u64, u64),
}

#[derive(Debug)]
pub struct Watch {
    directory: Directory,
    interest: Interest,
    /// Both others are in it.
    set: InternalFd,
    inotify: InternalFd,
    timer: InternalFd,
    folders: HashMap<i32, Watched>,
    /// Tells once of something new in the run directory, and has to be made anew then.
    outer: Option<i32>,
    outer_at: Option<Instant>,
    known: HashMap<Key, Record>,
    /// What may be about to end: when to look, and how often that was done.
    doubts: HashMap<Key, (Instant, usize)>,
    changes: VecDeque<Change>,
}

impl Watch {
    /// Everything that is there already appears first.
    pub fn new(directory: Directory, interest: Interest) -> io::Result<Watch> {
        let flags = CreateFlags::NONBLOCK | CreateFlags::CLOEXEC;
        let inotify = to_high(inotify::init(flags)?)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = to_high(timerfd_create(TimerfdClockId::Monotonic, flags)?)?;
        let set = to_high(epoll::create(epoll::CreateFlags::CLOEXEC)?)?;
        for (number, fd) in [(0, &inotify), (1, &timer)] {
            epoll::add(&set, fd, EventData::new_u64(number), EventFlags::IN)?;
        }
        let mut watch = Watch {
            directory,
            interest,
            set,
            inotify,
            timer,
            folders: HashMap::new(),
            outer: None,
            outer_at: None,
            known: HashMap::new(),
            doubts: HashMap::new(),
            changes: VecDeque::new(),
        };
        watch.find_folders(Instant::now())?;
        watch.set_timer()?;
        Ok(watch)
    }

    /// The next change, if there is one; else the descriptor is ready when it is worth to ask again.
    pub fn next_change(&mut self) -> io::Result<Option<Change>> {
        if self.changes.is_empty() {
            let now = Instant::now();
            let _ = io::read(&self.timer, &mut [0; 8]);
            // All of it: who waits for the next event is not told of this one again.
            while self.changes.is_empty() && self.hear(now)? {}
            self.settle_doubts(now);
            if self.outer_at.is_some_and(|at| at <= now) {
                self.find_folders(now)?;
            }
            self.set_timer()?;
        }
        Ok(self.changes.pop_front())
    }

    /// Where names can be that are not there yet.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Some events. `false`: there were none.
    fn hear(&mut self, now: Instant) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut heard = Vec::new();
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().and_then(|name| name.to_str().ok());
                    let label = name.and_then(Label::parse);
                    heard.push((event.wd(), event.events(), label));
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
            if reader.is_buffer_empty() {
                break;
            }
        }
        let some = !heard.is_empty();
        for (folder, events, label) in heard {
            self.hear_one(folder, events, label, now)?;
        }
        Ok(some)
    }

    fn hear_one(
        &mut self,
        folder: i32,
        events: ReadFlags,
        label: Option<Label>,
        now: Instant,
    ) -> io::Result<()> {
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            return self.start_over(now);
        }
        if self.outer == Some(folder) {
            self.outer = None;
            self.outer_at = Some(now + PAUSE);
            return self.open_folders(now);
        }
        if events.intersects(ReadFlags::IGNORED | ReadFlags::MOVE_SELF) {
            self.leave(folder);
            self.outer_at.get_or_insert(now + PAUSE);
            return Ok(());
        }
        if events.contains(ReadFlags::DELETE) {
            // Perhaps the folder goes next, and of that nobody tells as long as a file in it is open.
            self.outer_at.get_or_insert(now + PAUSE);
        }
        let uid = self.folders.get(&folder).map(|folder| folder.uid);
        let label = label.filter(|label| self.interest.includes(label));
        if let Some((uid, label)) = uid.zip(label) {
            let closed = events.contains(ReadFlags::CLOSE_WRITE);
            self.look(uid, &label, closed.then_some(now));
        }
        Ok(())
    }

    /// Watches what there is, and what could still come.
    fn find_folders(&mut self, now: Instant) -> io::Result<()> {
        self.outer_at = None;
        self.leave_removed();
        let uids = self.directory.uids();
        let is_known = |uid: &u32| self.folders.values().any(|folder| folder.uid == *uid);
        if self.outer.is_none() && (self.directory.sees_all() || !uids.iter().all(is_known)) {
            let flags = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONESHOT;
            let run_dir = self.directory.run_dir().as_fd();
            self.outer = Some(add_watch(&self.inotify, run_dir, flags)?);
        }
        self.open_folders(now)
    }

    /// Events were lost, whatever they were.
    fn start_over(&mut self, now: Instant) -> io::Result<()> {
        let folders = self.folders.drain().map(|(number, _)| number);
        for number in folders.chain(self.outer.take()) {
            let _ = inotify::remove_watch(&self.inotify, number);
        }
        self.find_folders(now)?;
        let is_there = |uid: u32| self.folders.values().any(|folder| folder.uid == uid);
        let keys = self.known.keys().filter(|key| !is_there(key.0));
        for (uid, label) in keys.copied().collect::<Vec<Key>>() {
            self.look(uid, &label, None);
        }
        Ok(())
    }

    fn open_folders(&mut self, now: Instant) -> io::Result<()> {
        for uid in self.directory.uids() {
            if self.folders.values().any(|folder| folder.uid == uid) {
                continue;
            }
            let folder = match Folder::of(self.directory.run_dir(), uid) {
                Ok(folder) => folder,
                Err(errno) => {
                    if is_lack(errno) {
                        self.outer_at.get_or_insert(now + PAUSE);
                    }
                    continue;
                }
            };
            let flags = WatchFlags::MOVED_TO
                | WatchFlags::MOVED_FROM
                | WatchFlags::DELETE
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::MOVE_SELF;
            let number = add_watch(&self.inotify, folder.dir().as_fd(), flags)?;
            let inode = folder.inode()?;
            match folder.labels() {
                Err(errno) if is_lack(errno) => {
                    // Nobody tells of what is in it already: it is found anew.
                    let _ = inotify::remove_watch(&self.inotify, number);
                    self.outer_at.get_or_insert(now + PAUSE);
                }
                labels => {
                    self.folders.insert(number, Watched { uid, inode });
                    self.look_at_all(uid, labels.unwrap_or_default(), now);
                }
            }
        }
        Ok(())
    }

    /// Looks at everything that is in a folder, or was.
    fn look_at_all(&mut self, uid: u32, mut labels: Vec<Label>, now: Instant) {
        let known = self.known.keys().filter(|key| key.0 == uid);
        labels.extend(known.map(|key| key.1));
        labels.retain(|label| self.interest.includes(label));
        labels.sort();
        labels.dedup();
        for label in labels {
            // Its end may have begun before we watched.
            self.look(uid, &label, Some(now));
        }
    }

    /// What is there now, and what that changes. `doubt`: it may be ending at this moment.
    fn look(&mut self, uid: u32, label: &Label, doubt: Option<Instant>) {
        let key = (uid, *label);
        let folder = Folder::of(self.directory.run_dir(), uid);
        let found = match folder.and_then(|folder| self.directory.look(&folder, label)) {
            Ok(found) => found,
            Err(errno) if is_lack(errno) => {
                let again = Instant::now() + DOUBTS[AFTER_LACK];
                self.doubts.insert(key, (again, AFTER_LACK));
                return;
            }
            Err(_) => None,
        };
        self.note(key, found);
        match doubt {
            Some(now) if found.is_some() => {
                self.doubts.insert(key, (now + DOUBTS[0], 0));
            }
            _ if found.is_none() => drop(self.doubts.remove(&key)),
            _ => {}
        }
    }

    fn note(&mut self, key: Key, found: Option<Record>) {
        let before = self.known.get(&key).copied();
        if before.map(|before| before.nonce) == found.map(|found| found.nonce) {
            return;
        }
        if let Some(before) = before {
            self.known.remove(&key);
            self.changes.push_back(Change::Disappeared(before));
        }
        if let Some(found) = found.filter(|_| self.known.len() < MOST_KNOWN) {
            self.known.insert(key, found);
            self.changes.push_back(Change::Appeared(found));
        }
    }

    fn leave_removed(&mut self) {
        let is_there = |watched: &Watched| {
            let folder = Folder::of(self.directory.run_dir(), watched.uid);
            match folder.and_then(|folder| folder.inode()) {
                Ok(inode) => inode == watched.inode,
                Err(errno) => is_lack(errno),
            }
        };
        let gone = self.folders.iter().filter(|(_, it)| !is_there(it));
        for number in gone.map(|(number, _)| *number).collect::<Vec<i32>>() {
            let _ = inotify::remove_watch(&self.inotify, number);
            self.leave(number);
        }
    }

    /// A folder is gone, with all that was in it.
    fn leave(&mut self, folder: i32) {
        let Some(folder) = self.folders.remove(&folder) else {
            return;
        };
        let keys = self.known.keys().filter(|key| key.0 == folder.uid);
        for key in keys.copied().collect::<Vec<Key>>() {
            self.doubts.remove(&key);
            self.note(key, None);
        }
    }

    fn settle_doubts(&mut self, now: Instant) {
        let due = self.doubts.iter().filter(|(_, (at, _))| *at <= now);
        let due: Vec<(Key, usize)> = due.map(|(key, (_, step))| (*key, *step)).collect();
        for (key, step) in due {
            match DOUBTS.get(step + 1) {
                Some(pause) => drop(self.doubts.insert(key, (now + *pause, step + 1))),
                None => drop(self.doubts.remove(&key)),
            }
            self.look(key.0, &key.1, None);
        }
    }

    fn set_timer(&mut self) -> io::Result<()> {
        let doubts = self.doubts.values().map(|(at, _)| *at);
        let next = doubts.chain(self.outer_at).min();
        let pause = next.map(|at| at.saturating_duration_since(Instant::now()));
        // Zero would stop it.
        let pause = pause.map_or(Duration::ZERO, |pause| pause.max(Duration::from_nanos(1)));
        let value = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: pause.as_secs() as i64,
                tv_nsec: pause.subsec_nanos().into(),
            },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &value)?;
        Ok(())
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

/// Of an open folder: a path could lead elsewhere meanwhile.
fn add_watch(inotify: &InternalFd, folder: BorrowedFd<'_>, flags: WatchFlags) -> io::Result<i32> {
    let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
    inotify::add_watch(inotify, path, flags | WatchFlags::ONLYDIR)
}
