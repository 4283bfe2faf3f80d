//! A socket and its place in a reactor, which it gets when a task has to wait for it first.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use crate::socket::Socket;
use crate::wait::{Direction, Event, Reactor, Registration};

#[derive(Debug)]
pub struct Pollable {
    pub socket: Socket,
    is_stream: bool,
    registration: OnceLock<Registration>,
    /// Held by the first that registers.
    registering: Mutex<()>,
}

impl Pollable {
    pub fn listener(socket: Socket) -> Pollable {
        Pollable::new(socket, false)
    }

    pub fn stream(socket: Socket) -> Pollable {
        Pollable::new(socket, true)
    }

    fn new(socket: Socket, is_stream: bool) -> Pollable {
        Pollable {
            socket,
            is_stream,
            registration: OnceLock::new(),
            registering: Mutex::new(()),
        }
    }

    /// Does what would block if it could not be done, as soon as it can.
    #[inline]
    pub fn poll<T>(
        &self,
        direction: Direction,
        task: &Context<'_>,
        mut attempt: impl FnMut(&Socket) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        match attempt(&self.socket) {
            Err(error) if is_for_later(&error) => {
                self.wait(direction, task, |_| attempt(&self.socket))
            }
            done => Poll::Ready(done),
        }
    }

    /// The same for who waits for it.
    pub async fn when<T>(
        &self,
        direction: Direction,
        mut attempt: impl FnMut(&Socket) -> io::Result<T>,
    ) -> io::Result<T> {
        poll_fn(|task| self.poll(direction, task, &mut attempt)).await
    }

    /// In a reactor, which hears of the kernel socket's events.
    #[inline]
    pub fn is_registered(&self) -> bool {
        self.registration.get().is_some()
    }

    /// The only stream that this reactor waits for.
    pub fn is_only_stream_of(&self, reactor: &Arc<Reactor>) -> bool {
        let registration = self.registration.get();
        registration.is_some_and(|registration| registration.is_only_stream_of(reactor))
    }

    pub fn wait<T>(
        &self,
        direction: Direction,
        task: &Context<'_>,
        attempt: impl FnMut(Event) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let registration = match self.registration.get() {
            Some(registration) => registration,
            None => match self.register() {
                Ok(registration) => registration,
                Err(error) => return Poll::Ready(Err(error)),
            },
        };
        registration.poll(direction, task, attempt)
    }

    /// Two tasks may be first at the same time.
    fn register(&self) -> io::Result<&Registration> {
        let _first = self
            .registering
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(registration) = self.registration.get() {
            return Ok(registration);
        }
        let fresh = Registration::new(&self.socket, self.is_stream)?;
        Ok(self.registration.get_or_init(|| fresh))
    }
}

/// It has to be tried again, at once or when something has happened.
pub fn is_for_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

impl Drop for Pollable {
    fn drop(&mut self) {
        if let Some(registration) = self.registration.get() {
            registration.end(&self.socket);
        }
    }
}
