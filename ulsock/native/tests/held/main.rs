//! What endpoints hold: memory and descriptors. Both are counted for the whole process, so that one test runs at a time.

#[path = "../common/mod.rs"]
mod common;
#[path = "../messages/endpoints.rs"]
mod endpoints;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::run;
use endpoints::{connect, here, keep, pattern, serve, until, until_next_turn};
use ulsock_native::message::{Endpoint, Incoming};
use ulsock_native::run::spawn;

const TAKE: u16 = 3;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn narrow(window: usize) -> Rc<Endpoint> {
    Rc::new(Endpoint::bind_with_window("127.0.0.1:0", window).expect("an endpoint"))
}

async fn turns(count: usize) {
    for _ in 0..count {
        until_next_turn().await;
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("procfs").count()
}

fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse::<usize>().ok());
    pages.expect("a number") * 4096
}

/// It is slower than its sender, but takes all.
#[test]
fn a_slow_handler_keeps_no_more_than_the_window() {
    let _alone = alone();
    run(async {
        let (near, far) = (here(), narrow(64 << 10));
        let taken = Rc::new(Cell::new(0));
        let sum = taken.clone();
        far.handle(TAKE, move |mut message: Incoming| {
            let sum = sum.clone();
            async move {
                let mut room = [0; 16 << 10];
                loop {
                    turns(200).await;
                    let n = message.read(&mut room).await?;
                    if n == 0 {
                        return Ok(());
                    }
                    sum.set(sum.get() + n);
                }
            }
        });
        serve(&far);
        let peer = connect(&near, &far).await;
        let before = resident();
        drop(spawn(async move {
            let bytes = pattern(1, 1 << 20);
            let mut message = peer.begin(TAKE).expect("begun");
            for _ in 0..60 {
                message.piece(&bytes).await.expect("sent");
            }
            message.end().await.expect("sent");
        }));
        until(|| taken.get() > 58 << 20).await;
        let grown = (resident() - before) >> 20;
        assert!(grown < 10, "{grown} MiB for a window of 64 KiB");
    });
}

/// By an endpoint that never extracts.
#[test]
fn closed_peers_keep_no_descriptors() {
    let _alone = alone();
    run(async {
        let (near, far) = (here(), here());
        let kept = keep(&far, TAKE);
        serve(&far);
        let mut first = 0;
        for n in 0..200 {
            let peer = connect(&near, &far).await;
            peer.send(TAKE, b"x").await.expect("sent");
            peer.close().await;
            drop(peer);
            until(|| kept.borrow().len() == n + 1).await;
            if n == 20 {
                first = descriptors();
            }
        }
        assert!(
            descriptors() < first + 20,
            "{} descriptors after 20, {} after 200",
            first,
            descriptors()
        );
    });
}

#[test]
fn peers_that_went_keep_no_descriptors() {
    let _alone = alone();
    run(async {
        let far = here();
        let near = here();
        serve(&far);
        serve(&near);
        turns(100).await;
        let before = descriptors();
        let mut all = Vec::new();
        for _ in 0..12 {
            let near = near.clone();
            let to = far.local_addr().expect("an address");
            all.push(spawn(
                async move { near.connect(to).await.expect("connected") },
            ));
        }
        let mut peers = Vec::new();
        for one in all {
            peers.push(one.await);
        }
        until(|| far.peers().len() == 12).await;
        turns(1000).await;
        for peer in peers {
            peer.close().await;
        }
        until(|| far.peers().is_empty()).await;
        turns(20_000).await;
        let held = descriptors();
        let more = connect(&near, &far).await;
        until(|| far.peers().len() == 1).await;
        turns(1000).await;
        drop(more);
        assert!(
            held < before + 6,
            "{before} before, {} after",
            descriptors()
        );
    });
}
