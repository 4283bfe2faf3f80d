//! Messages over kernel TCP alone: ulsock is off.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ulsock_native::message::{Endpoint, Incoming};
use ulsock_native::run::{block_on, sleep, spawn};

const TAKE: u16 = 1;
const MESSAGES: usize = 200;
const LEN: usize = 64_000;

/// The receiver takes it later, and gives credit to who is not there any more.
#[test]
fn what_was_sent_before_the_end_comes() {
    // SAFETY: the only test of this program, before anything reads the environment.
    unsafe { std::env::set_var("ULSOCK", "0") };
    for _ in 0..8 {
        block_on(talk()).expect("a loop");
    }
}

async fn talk() {
    let far = Endpoint::bind_with_window("127.0.0.1:0", 16 << 20).expect("an endpoint");
    let taken = Rc::new(Cell::new(0));
    let count = taken.clone();
    far.handle(TAKE, move |mut message: Incoming| {
        let count = count.clone();
        async move {
            let mut room = [0; LEN];
            message.read_exact(&mut room).await?;
            count.set(count.get() + 1);
            Ok(())
        }
    });
    let near = Endpoint::new();
    let peer = near
        .connect(far.local_addr().expect("an address"))
        .await
        .expect("a peer");
    // For the greeting; after that it takes nothing for a while.
    far.extract(1).await.expect("an arrival");
    let sends = spawn(async move {
        for _ in 0..MESSAGES {
            peer.send(TAKE, &[7; LEN]).await.expect("sent");
        }
        peer.close().await;
        drop(near);
    });
    sleep(Duration::from_millis(300)).await.expect("a timer");
    let far = Rc::new(far);
    let serving = far.clone();
    drop(spawn(async move { serving.serve().await }));
    sends.await;
    while !far.peers().is_empty() {
        sleep(Duration::from_millis(1)).await.expect("a timer");
    }
    assert_eq!(taken.get(), MESSAGES);
}
