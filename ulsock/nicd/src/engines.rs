//! The engines of the daemon, as its control side sees them. The first has no thread of its own: it is polled in the
//! daemon's loop. Each of the others is behind two bounded channels, and either side wakes the other if that sleeps.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError, bounded};
use netstack::phy::Reserved;

use super::connection::ConnectionId;
use super::engine_messages::{Command, Entry, MOST_WAITING, Report};
use super::engine_thread::{EngineThread, EngineView, Shared};
use super::interface::Make;
use super::say;
use shm::waiter::{self, Waiter, ring_if_asleep};

/// Engines that a daemon may have.
pub const MOST_ENGINES: usize = 16;
/// Their UDP ports come after those that are leased to programs (`leases.rs`).
const FIRST_PORT: u16 = 256;

/// The UDP port of an engine, by the one of its daemon. Both daemons count alike.
pub fn udp_port(daemon: u16, engine: usize) -> Option<u16> {
    match engine {
        0 => Some(daemon),
        _ => daemon.checked_add(FIRST_PORT + engine as u16),
    }
}

/// Where that engine of a daemon is.
pub fn engine_address(daemon: SocketAddr, engine: usize) -> Option<SocketAddr> {
    Some(SocketAddr::new(
        daemon.ip(),
        udp_port(daemon.port(), engine)?,
    ))
}

/// What is heard from an engine on a thread of its own.
pub enum Heard {
    Report(Report),
    /// The thread has ended, and nothing follows.
    Ended,
}

struct Handle {
    /// Its UDP port is nobody else's.
    reserved: Option<Reserved>,
    running: Option<Running>,
}

struct Running {
    commands: Sender<Command>,
    reports: Receiver<Report>,
    /// Commands that have found no room; notices and entries are never among them.
    unsent: VecDeque<Command>,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

pub struct Engines {
    /// Those with threads: the second engine is the first here.
    threads: Vec<Handle>,
    /// Whose turn it was.
    last: usize,
}

impl Engines {
    /// Reserves what so many take; their threads do not run yet.
    pub fn reserve(count: usize, daemon: u16) -> Result<Engines, String> {
        let reserve = |engine: usize| {
            let udp = udp_port(daemon, engine).ok_or("no UDP ports are left for the engines")?;
            let reserved = Reserved::new(udp);
            let reserved =
                reserved.map_err(|why| format!("UDP port {udp} cannot be had: {why}"))?;
            Ok(Handle {
                reserved: Some(reserved),
                running: None,
            })
        };
        let threads = (1..count).map(reserve).collect::<Result<_, String>>()?;
        Ok(Engines { threads, last: 0 })
    }

    /// With the first.
    pub fn count(&self) -> usize {
        1 + self.threads.len()
    }

    /// Starts their threads, which have the rights of this one. An engine that cannot be started serves nobody.
    pub fn start(&mut self, make: &Make, control: &'static Waiter) {
        for (at, handle) in self.threads.iter_mut().enumerate() {
            let number = at + 1;
            match handle.start(number, make, control) {
                Ok(running) => handle.running = Some(running),
                Err(why) => say!("engine {number} cannot be started: {why}"),
            }
        }
    }

    /// Whose turn is next: the first, or one of those whose bit is set.
    pub fn next_of(&mut self, up: u32) -> usize {
        let candidates = (self.last + 1..self.count()).chain(0..self.count());
        let is_up = |engine: &usize| *engine == 0 || up & 1 << engine != 0;
        self.last = candidates.into_iter().find(is_up).unwrap_or(0);
        self.last
    }

    /// Every thread that runs shall do that, but those from `end` on.
    pub fn tell_all(&mut self, end: usize, command: impl Fn(usize) -> Option<Command>) {
        for engine in 1..end.min(self.count()) {
            if let Some(command) = command(engine) {
                self.tell(engine, command);
            }
        }
    }

    /// What has no room now is said later.
    pub fn tell(&mut self, engine: usize, command: Command) {
        if let Some(running) = self.running(engine) {
            running.unsent.push_back(command);
            running.send_on();
        }
    }

    /// Its program has rung. If there is no room, the engine looks at all.
    pub fn notice(&mut self, engine: usize, id: ConnectionId) {
        if let Some(running) = self.running(engine) {
            if !running.try_tell(Command::Notice(id)) {
                let shared = &running.shared;
                shared.look_at_all.store(true, Ordering::Release);
            }
            running.wake();
        }
    }

    /// `false`: the engine has no room, or is gone.
    pub fn enter(&mut self, engine: usize, entry: Entry) -> bool {
        let Some(running) = self.running(engine) else {
            return false;
        };
        let told = running.try_tell(Command::Enter(Box::new(entry)));
        running.wake();
        told
    }

    pub fn runs(&self, engine: usize) -> bool {
        let Some(at) = engine.checked_sub(1) else {
            return true;
        };
        self.threads.get(at).is_some_and(|it| it.running.is_some())
    }

    fn running(&mut self, engine: usize) -> Option<&mut Running> {
        let at = engine.checked_sub(1)?;
        self.threads.get_mut(at)?.running.as_mut()
    }

    /// What one of them has to say.
    pub fn hear(&mut self) -> Option<(usize, Heard)> {
        for (at, handle) in self.threads.iter_mut().enumerate() {
            let Some(running) = &mut handle.running else {
                continue;
            };
            match running.reports.try_recv() {
                Ok(report) => return Some((at + 1, Heard::Report(report))),
                Err(TryRecvError::Empty) => running.send_on(),
                Err(TryRecvError::Disconnected) => {
                    handle.end();
                    return Some((at + 1, Heard::Ended));
                }
            }
        }
        None
    }

    /// Somebody has something to say, or can be told what had no room.
    pub fn have_news(&self) -> bool {
        let mut all = self.threads.iter().filter_map(|it| it.running.as_ref());
        all.any(|it| !it.reports.is_empty() || !it.unsent.is_empty() || it.thread.is_finished())
    }

    /// The last of them that runs ends. For tests.
    pub fn end_last(&mut self) {
        let running = |engine: &usize| self.threads[engine - 1].running.is_some();
        if let Some(engine) = (1..self.count()).rev().find(running) {
            self.tell(engine, Command::End);
        }
    }

    /// All end: links are left, and words are frozen.
    pub fn end(&mut self) {
        self.threads.iter_mut().for_each(Handle::end);
    }

    /// What each of them shows; `None`: it has ended.
    pub fn views(&self) -> impl Iterator<Item = Option<EngineView>> {
        self.threads.iter().map(|handle| {
            let view = handle.running.as_ref()?.shared.view.lock();
            view.ok().map(|view| *view)
        })
    }
}

impl Handle {
    fn start(
        &self,
        number: usize,
        make: &Make,
        control: &'static Waiter,
    ) -> Result<Running, String> {
        let (commands, to_do) = bounded(MOST_WAITING);
        let (said, reports) = bounded(MOST_WAITING);
        let shared = Arc::new(Shared {
            view: Mutex::default(),
            look_at_all: AtomicBool::new(false),
            waiter: waiter::take().ok_or("no memory for a bell")?,
            control,
        });
        let udp = udp_port(make.udp, number).ok_or("it has no UDP port")?;
        let thread = EngineThread {
            number,
            make: Make {
                udp,
                ..make.clone()
            },
            commands: to_do,
            reports: said,
            shared: shared.clone(),
        };
        let builder = Builder::new().name(format!("engine {number}"));
        let thread = builder.spawn(|| thread.run());
        Ok(Running {
            commands,
            reports,
            unsent: VecDeque::new(),
            shared,
            thread: thread.map_err(|why| why.to_string())?,
        })
    }

    /// Its channels end, and its thread with them.
    fn end(&mut self) {
        self.reserved = None;
        if let Some(running) = self.running.take() {
            let Running {
                commands,
                reports,
                shared,
                thread,
                ..
            } = running;
            drop((commands, reports));
            // It finds its channels closed, should it sleep.
            shared.waiter.rouse();
            let _ = thread.join();
        }
    }
}

impl Running {
    /// `false`: there is no room, or something else has to be said first.
    fn try_tell(&mut self, command: Command) -> bool {
        self.unsent.is_empty() && self.commands.try_send(command).is_ok()
    }

    fn send_on(&mut self) {
        let mut sent = false;
        while let Some(command) = self.unsent.pop_front() {
            match self.commands.try_send(command) {
                Ok(()) => sent = true,
                Err(TrySendError::Full(command)) => {
                    self.unsent.push_front(command);
                    break;
                }
                Err(TrySendError::Disconnected(_)) => {}
            }
        }
        if sent {
            self.wake();
        }
    }

    fn wake(&self) {
        // Whoever lies down looks once more afterwards: one of us sees the other.
        fence(Ordering::SeqCst);
        ring_if_asleep(self.shared.waiter.number);
    }
}
