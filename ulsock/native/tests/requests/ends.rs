//! Calls that end before their replies: by a deadline, by being dropped, with their peer.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ulsock_native::message::Endpoint;
use ulsock_native::request::RequestError;
use ulsock_native::run::spawn;

use super::common::run;
use super::help::{CALL, Count, ECHO, NEVER, STREAM, Server, begun, pair, pattern, turn, until};

#[test]
fn a_deadline_ends_the_call_and_drops_its_handler() {
    run(async {
        let (_near, far, caller) = pair().await;
        let begin = Instant::now();
        let quick = caller.within(Duration::from_millis(50));
        let late = quick.call(NEVER, b"").await;
        assert!(matches!(late, Err(RequestError::DeadlineExceeded)));
        assert!(begin.elapsed() >= Duration::from_millis(50));
        until(|| far.waiting.get() == 0).await;
        // Those of others, and later ones, are as before.
        assert_eq!(quick.call(ECHO, b"x").await.expect("a reply"), b"x");
        assert_eq!(caller.call(ECHO, b"x").await.expect("a reply"), b"x");
    });
}

/// The caller never cancels: it does not look at its clock.
#[test]
fn the_server_keeps_the_deadline_by_itself() {
    run(async {
        let far = Server::new();
        let raw = Rc::new(Endpoint::new());
        let serving = raw.clone();
        drop(spawn(async move { serving.serve().await }));
        let peer = raw.connect(far.address()).await.expect("a connection");
        let mut header = [0; 20];
        header[..8].copy_from_slice(&99_u64.to_le_bytes());
        header[8..16].copy_from_slice(&30_000_u64.to_le_bytes());
        header[16] = NEVER as u8;
        peer.send(CALL, &header).await.expect("sent");
        until(|| far.waiting.get() == 1).await;
        until(|| far.waiting.get() == 0).await;
        assert!(!peer.is_gone());
    });
}

#[test]
fn deadlines_end_calls_in_their_order() {
    run(async {
        let (_near, _far, caller) = pair().await;
        let ended = Rc::new(RefCell::new(Vec::new()));
        let mut tasks = Vec::new();
        for millis in [90_u64, 30, 60, 120, 10] {
            let (caller, ended) = (caller.within(Duration::from_millis(millis)), ended.clone());
            tasks.push(spawn(async move {
                let late = caller.call(NEVER, b"").await;
                assert!(matches!(late, Err(RequestError::DeadlineExceeded)));
                ended.borrow_mut().push(millis);
            }));
        }
        for task in tasks {
            task.await;
        }
        assert_eq!(*ended.borrow(), [10, 30, 60, 90, 120]);
    });
}

/// The request itself does not get out: the server extracts nothing.
#[test]
fn a_deadline_ends_a_call_that_waits_for_credit() {
    run(async {
        let near = Server::new();
        let idle = Endpoint::bind("127.0.0.1:0").expect("an endpoint");
        let address = idle.local_addr().expect("an address");
        let caller = near.requests.connect(address).await.expect("a connection");
        let caller = caller.within(Duration::from_millis(30));
        let late = caller.call(ECHO, &[0; 1 << 20]).await;
        assert!(matches!(late, Err(RequestError::DeadlineExceeded)));
    });
}

#[test]
fn a_call_that_is_dropped_drops_its_handler_and_nothing_else() {
    run(async {
        let (_near, far, caller) = pair().await;
        let mut calls: Vec<_> = (0..10).map(|_| Box::pin(caller.call(NEVER, b""))).collect();
        for call in &mut calls {
            assert!(begun(call).await.is_pending());
        }
        until(|| far.waiting.get() == 10).await;
        drop(calls.pop());
        until(|| far.waiting.get() == 9).await;
        assert_eq!(caller.call(ECHO, b"x").await.expect("a reply"), b"x");
        assert_eq!(far.waiting.get(), 9);
        drop(calls);
        until(|| far.waiting.get() == 0).await;
    });
}

/// The reply is under way when its call is dropped: nobody hears of it.
#[test]
fn late_replies_are_skipped() {
    run(async {
        let (_near, _far, caller) = pair().await;
        for round in 0..300_usize {
            let bytes = pattern(round, 3000);
            let mut dropped = Box::pin(caller.call(ECHO, &bytes));
            for _ in 0..round % 7 {
                if begun(&mut dropped).await.is_ready() {
                    break;
                }
                turn().await;
            }
            drop(dropped);
            let bytes = pattern(round + 1, 40);
            assert!(caller.call(ECHO, &bytes).await.expect("a reply") == bytes);
        }
    });
}

#[test]
fn a_stream_that_is_dropped_is_cancelled() {
    run(async {
        let (_near, far, caller) = pair().await;
        let running = Count::default();
        let count = running.clone();
        far.requests.stream(STREAM, move |_body, mut reply| {
            let counted = count.one();
            async move {
                let counted = counted;
                loop {
                    reply.piece(&[7; 10_000]).await?;
                    let _ = &counted;
                }
            }
        });
        let (mut writer, mut reader) = caller.open(STREAM).await.expect("a call");
        reader
            .read_exact(&mut vec![0; 1_000_000])
            .await
            .expect("bytes");
        assert_eq!(running.get(), 1);
        drop(reader);
        until(|| running.get() == 0).await;
        let piece = writer.piece(b"x").await;
        assert!(matches!(piece, Err(RequestError::Cancelled)));
        assert_eq!(caller.call(ECHO, b"x").await.expect("a reply"), b"x");
    });
}

#[test]
fn a_peer_that_is_gone_ends_its_calls_at_both_ends() {
    run(async {
        let (near, far, caller) = pair().await;
        let other = Server::new();
        let safe = near.caller(&other).await;
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let caller = caller.clone();
                spawn(async move { caller.call(NEVER, b"").await })
            })
            .collect();
        until(|| far.waiting.get() == 50).await;
        caller.peer().close().await;
        for task in tasks {
            assert!(matches!(task.await, Err(RequestError::PeerGone)));
        }
        until(|| far.waiting.get() == 0).await;
        let after = caller.call(ECHO, b"x").await;
        assert!(matches!(after, Err(RequestError::PeerGone)));
        assert_eq!(safe.call(ECHO, b"x").await.expect("a reply"), b"x");
    });
}
