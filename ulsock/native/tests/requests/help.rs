//! A server that answers in some ways, and what the tests of requests share.

use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use ulsock_native::message::Endpoint;
use ulsock_native::request::{Caller, Limits, Requests};
use ulsock_native::run::spawn;

pub const ECHO: u16 = 1;
pub const NEVER: u16 = 2;
pub const SUM: u16 = 3;
pub const STREAM: u16 = 4;
pub const FAIL: u16 = 5;
pub const UNKNOWN: u16 = 6;

/// The number of the handler that takes calls.
pub const CALL: u16 = 0xff00;

/// Counts handlers that run.
#[derive(Clone, Default)]
pub struct Count(Rc<Cell<usize>>);

pub struct Counted(Count);

impl Count {
    pub fn one(&self) -> Counted {
        self.0.set(self.0.get() + 1);
        Counted(self.clone())
    }

    pub fn get(&self) -> usize {
        self.0.get()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let count = &self.0.0;
        count.set(count.get() - 1);
    }
}

pub struct Server {
    pub endpoint: Rc<Endpoint>,
    pub requests: Requests,
    /// Calls of the service that never answers.
    pub waiting: Count,
}

impl Server {
    pub fn new() -> Server {
        Server::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Server {
        let endpoint = Rc::new(Endpoint::bind("127.0.0.1:0").expect("an endpoint"));
        let requests = Requests::with_limits(&endpoint, limits).expect("requests");
        let waiting = Count::default();
        requests.answer(ECHO, |bytes: Vec<u8>| async move { Ok(bytes) });
        let count = waiting.clone();
        requests.answer(NEVER, move |_: Vec<u8>| {
            let counted = count.one();
            async move {
                pending::<()>().await;
                drop(counted);
                Ok(Vec::new())
            }
        });
        let server = Server {
            endpoint,
            requests,
            waiting,
        };
        let endpoint = server.endpoint.clone();
        drop(spawn(async move { endpoint.serve().await }));
        server
    }

    pub fn address(&self) -> SocketAddr {
        self.endpoint.local_addr().expect("an address")
    }

    pub async fn caller(&self, of: &Server) -> Caller {
        self.requests
            .connect(of.address())
            .await
            .expect("a connection")
    }
}

pub async fn pair() -> (Server, Server, Caller) {
    let (near, far) = (Server::new(), Server::new());
    let caller = near.caller(&far).await;
    (near, far, caller)
}

pub async fn turn() {
    let mut first = true;
    poll_fn(|task| {
        task.waker().wake_by_ref();
        match std::mem::take(&mut first) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    })
    .await;
}

pub async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        turn().await;
    }
}

/// Polls it once, and gives what it is then.
pub async fn begun<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    let mut future = pin!(future);
    poll_fn(|task| Poll::Ready(future.as_mut().poll(task))).await
}

pub fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (seed * 31 + at * 7 + at / 251) as u8)
        .collect()
}
