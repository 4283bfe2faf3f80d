//! Where messages stood still, lost something, or kept too much: each of these did once.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::task::Poll;
use std::thread;

use super::common::{begin, run};
use super::endpoints::{connect, here, keep, pattern, serve, until, until_next_turn};
use super::{ANSWER, ECHO, TAKE};
use ulsock_native::message::{Endpoint, Incoming, MessageError};
use ulsock_native::run::spawn;

fn narrow(window: usize) -> Rc<Endpoint> {
    Rc::new(Endpoint::bind_with_window("127.0.0.1:0", window).expect("an endpoint"))
}

async fn turns(count: usize) {
    for _ in 0..count {
        until_next_turn().await;
    }
}

/// Whether it is done.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|task| Poll::Ready(future.as_mut().poll(task).is_ready())).await
}

/// So many at the same time; their handlers take all that comes.
fn under_way(window: usize, count: usize) {
    run(async {
        let (near, far) = (here(), narrow(window));
        let kept = keep(&far, TAKE);
        serve(&far);
        serve(&near);
        let peer = connect(&near, &far).await;
        let mut all = Vec::new();
        for number in 0..count {
            let mut message = peer.begin(TAKE).expect("begun");
            message.piece(&pattern(number, 600)).await.expect("sent");
            all.push(message);
        }
        for message in all {
            message.end_with(&[7; 600]).await.expect("sent");
        }
        until(|| kept.borrow().len() == count).await;
    });
}

#[test]
fn many_messages_under_way() {
    under_way(16 << 10, 60);
    under_way(256 << 10, 1000);
}

/// More than can be under way: the others wait until some have ended.
#[test]
fn more_messages_than_the_window_allows() {
    run(async {
        let (near, far) = (here(), narrow(16 << 10));
        let kept = keep(&far, TAKE);
        serve(&far);
        serve(&near);
        let peer = connect(&near, &far).await;
        for number in 0..500 {
            let peer = peer.clone();
            drop(spawn(async move {
                let mut message = peer.begin(TAKE).expect("begun");
                for _ in 0..4 {
                    message.piece(&pattern(number, 600)).await.expect("sent");
                    until_next_turn().await;
                }
                message.end().await.expect("sent");
            }));
        }
        until(|| kept.borrow().len() == 500).await;
    });
}

#[test]
fn a_handler_drops_a_message_that_fills_the_window() {
    run(async {
        let (near, far) = (here(), narrow(16 << 10));
        far.handle(TAKE, |message: Incoming| async move {
            turns(1000).await;
            drop(message);
            Ok(())
        });
        serve(&far);
        let peer = connect(&near, &far).await;
        peer.send(TAKE, &pattern(1, 100_000)).await.expect("sent");
    });
}

#[test]
fn what_was_set_aside_outlives_the_link() {
    run(async {
        let (near, far) = (here(), narrow(16 << 10));
        let kept = keep(&near, TAKE);
        let peer = connect(&near, &far).await;
        far.extract(1).await.expect("an arrival");
        let back = far.peers().remove(0);
        for number in 0..5 {
            back.send(TAKE, &pattern(number, 100)).await.expect("sent");
        }
        // Waits for credit, and takes the five aside.
        let bytes = pattern(1, 100_000);
        let mut long = pin!(peer.send(TAKE, &bytes));
        for _ in 0..1000 {
            assert!(!poll_once(long.as_mut()).await);
            until_next_turn().await;
        }
        back.close().await;
        assert!(long.await.is_err());
        while kept.borrow().len() < 5 {
            near.extract(60).await.expect("extracted");
        }
    });
}

/// Both are in the middle of long frames.
#[test]
fn extractions_end_while_both_are_full() {
    run(async {
        let (near, far) = (narrow(8 << 20), narrow(8 << 20));
        let (a, b) = (keep(&near, TAKE), keep(&far, TAKE));
        let peer = connect(&near, &far).await;
        peer.send(TAKE, b"hello").await.expect("sent");
        far.extract(5).await.expect("one");
        while b.borrow().is_empty() {
            far.extract(5).await.expect("one");
        }
        let back = far.peers().remove(0);
        back.send(TAKE, b"hello").await.expect("sent");
        while a.borrow().is_empty() {
            near.extract(5).await.expect("one");
        }
        let done = Rc::new(Cell::new(0));
        {
            let (mut one, mut two) = (pin!(near.extract(1 << 30)), pin!(far.extract(1 << 30)));
            assert!(!poll_once(one.as_mut()).await);
            assert!(!poll_once(two.as_mut()).await);
            for peer in [peer, back] {
                let done = done.clone();
                drop(spawn(async move {
                    peer.send(TAKE, &pattern(1, 7 << 20)).await.expect("sent");
                    done.set(done.get() + 1);
                }));
            }
            turns(1000).await;
        }
        until(|| done.get() >= 1).await;
    });
}

/// Its program sends to the same peer before it extracts again.
#[test]
fn a_handler_waits_in_a_long_frame_and_nobody_extracts() {
    run(async {
        let (near, far) = (here(), narrow(8 << 20));
        near.handle(ECHO, |message: Incoming| async move {
            message.peer().send(ANSWER, &pattern(1, 7 << 20)).await
        });
        let (answers, takes) = (keep(&far, ANSWER), keep(&far, TAKE));
        let peer = connect(&near, &far).await;
        far.extract(1).await.expect("an arrival");
        let back = far.peers().remove(0);
        back.send(ECHO, b"").await.expect("sent");
        near.extract(1 << 20).await.expect("one");
        {
            let mut more = pin!(near.extract(1 << 20));
            for _ in 0..1000 {
                let _ = poll_once(more.as_mut()).await;
                until_next_turn().await;
            }
        }
        serve(&far);
        peer.send(TAKE, b"small").await.expect("sent");
        serve(&near);
        until(|| takes.borrow().len() == 1 && answers.borrow().len() == 1).await;
    });
}

#[test]
fn who_does_not_extract_hears_that_the_peer_is_gone() {
    run(async {
        let (near, far) = (here(), here());
        let kept = keep(&far, TAKE);
        serve(&far);
        let peer = connect(&near, &far).await;
        peer.send(TAKE, b"x").await.expect("sent");
        until(|| kept.borrow().len() == 1).await;
        far.peers().remove(0).close().await;
        assert!(matches!(peer.gone().await, MessageError::PeerGone));
    });
}

#[test]
fn a_message_outlives_its_endpoint() {
    run(async {
        let (near, far) = (here(), Endpoint::bind("127.0.0.1:0").expect("an endpoint"));
        let slot: Rc<RefCell<Option<Incoming>>> = Rc::default();
        let place = slot.clone();
        far.handle(TAKE, move |message: Incoming| {
            *place.borrow_mut() = Some(message);
            async { Ok(()) }
        });
        let peer = connect(&near, &far).await;
        let mut message = peer.begin(TAKE).expect("begun");
        message.piece(&[1; 1000]).await.expect("sent");
        while slot.borrow().is_none() {
            far.extract(usize::MAX).await.expect("one");
        }
        let mut incoming = slot.take().expect("one");
        drop(far);
        assert!(incoming.read_rest(1 << 20).await.is_err());
    });
}

#[test]
fn a_rest_of_any_length() {
    run(async {
        let (near, far) = (here(), here());
        let kept = Rc::new(RefCell::new(None));
        let all = kept.clone();
        far.handle(TAKE, move |mut message: Incoming| {
            let all = all.clone();
            async move {
                *all.borrow_mut() = Some(message.read_rest(usize::MAX).await?);
                Ok(())
            }
        });
        serve(&far);
        let peer = connect(&near, &far).await;
        peer.send(TAKE, b"five!").await.expect("sent");
        until(|| kept.borrow().is_some()).await;
        assert_eq!(kept.borrow().as_deref(), Some(&b"five!"[..]));
    });
}

#[test]
fn nothing_is_extracted_at_once() {
    run(async {
        let (near, far) = (here(), here());
        let _kept = keep(&far, TAKE);
        let peer = connect(&near, &far).await;
        peer.send(TAKE, b"x").await.expect("sent");
        far.extract(0).await.expect("at once");
    });
}

/// A sender that is always ahead.
#[test]
fn a_server_lets_other_tasks_run() {
    begin();
    let (tell, hear) = channel();
    let over = Arc::new(AtomicBool::new(false));
    let stop = over.clone();
    let server = thread::spawn(move || {
        run(async {
            let far = here();
            far.handle(TAKE, |mut message: Incoming| async move {
                thread::yield_now();
                message.read_up_to(&mut [0; 64]).await.map(drop)
            });
            tell.send(far.local_addr().expect("an address"))
                .expect("heard");
            serve(&far);
            until(|| !far.peers().is_empty()).await;
            turns(2000).await;
            stop.store(true, Ordering::Relaxed);
            // The sender may wait for credit.
            until(|| far.peers().is_empty()).await;
        });
    });
    let address = hear.recv().expect("an address");
    run(async {
        let near = here();
        let peer = near.connect(address).await.expect("a connection");
        while !over.load(Ordering::Relaxed) {
            peer.send(TAKE, &[1; 64]).await.expect("sent");
        }
        peer.close().await;
    });
    server.join().expect("it ends");
}
