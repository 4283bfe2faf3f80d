//! Endpoints of one process.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use ulsock_native::message::{Endpoint, Incoming, Peer};
use ulsock_native::run::spawn;

pub fn here() -> Rc<Endpoint> {
    Rc::new(Endpoint::bind("127.0.0.1:0").expect("an endpoint"))
}

pub async fn connect(from: &Endpoint, to: &Endpoint) -> Peer {
    let address = to.local_addr().expect("an address");
    from.connect(address).await.expect("a connection")
}

pub fn serve(endpoint: &Rc<Endpoint>) {
    let endpoint = endpoint.clone();
    drop(spawn(async move { endpoint.serve().await }));
}

/// Bytes that tell where they belong.
pub fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (seed * 31 + at * 7 + at / 251) as u8)
        .collect()
}

/// A handler that keeps whole messages.
pub fn keep(endpoint: &Endpoint, number: u16) -> Rc<RefCell<VecDeque<Vec<u8>>>> {
    let kept = Rc::new(RefCell::new(VecDeque::new()));
    let all = kept.clone();
    endpoint.handle(number, move |mut message: Incoming| {
        let all = all.clone();
        async move {
            let bytes = message.read_rest(16 << 20).await?;
            all.borrow_mut().push_back(bytes);
            Ok(())
        }
    });
    kept
}

pub async fn until(condition: impl Fn() -> bool) {
    while !condition() {
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
}

pub async fn until_next_turn() {
    let turns = Cell::new(0);
    until(|| turns.replace(turns.get() + 1) > 0).await;
}
