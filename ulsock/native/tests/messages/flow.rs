//! How messages flow: pieces and their boundaries, interleaving, credit, and two full peers that answer each other.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use super::common::run;
use super::endpoints::{connect, here, keep, pattern, serve, until, until_next_turn};
use super::{ANSWER, ECHO, TAKE};
use ulsock_native::message::{Endpoint, Incoming, Peer};
use ulsock_native::run::spawn;
#[test]
fn messages_of_all_lengths_come_whole_and_in_order() {
    run(async {
        let (near, far) = (here(), here());
        let kept = keep(&far, TAKE);
        serve(&far);
        let peer = connect(&near, &far).await;
        let lengths = [
            0, 1, 7, 8, 63, 64, 255, 256, 503, 504, 505, 511, 512, 513, 1024, 4095, 4096, 4097,
            16_383, 16_384, 65_535, 65_536, 65_537, 262_144, 1_000_003,
        ];
        for round in 0..20 {
            for len in lengths {
                let bytes = pattern(round + len, len);
                peer.send(TAKE, &bytes).await.expect("sent");
            }
        }
        until(|| kept.borrow().len() == 20 * lengths.len()).await;
        for round in 0..20 {
            for len in lengths {
                let got = kept.borrow_mut().pop_front().expect("a message");
                assert!(got == pattern(round + len, len), "a message of {len} bytes");
            }
        }
    });
}

#[test]
fn boundaries_of_pieces_need_not_match() {
    run(async {
        let (near, far) = (here(), here());
        let (done, sum) = (
            Rc::new(Cell::new(0)),
            Rc::new(RefCell::new(Vec::<u8>::new())),
        );
        let (count, taken) = (done.clone(), sum.clone());
        far.handle(TAKE, move |mut message| {
            let (count, taken) = (count.clone(), taken.clone());
            async move {
                let mut size = 1;
                loop {
                    let mut piece = vec![0; size];
                    let n = message.read(&mut piece).await?;
                    taken.borrow_mut().extend(&piece[..n]);
                    if n == 0 {
                        break;
                    }
                    size = size * 3 % 7001 + 1;
                }
                count.set(count.get() + 1);
                Ok(())
            }
        });
        serve(&far);
        let peer = connect(&near, &far).await;
        for round in 1..30_usize {
            let bytes = pattern(round, 200_000);
            let mut message = peer.begin(TAKE).expect("begun");
            let (mut at, mut size) = (0, round);
            while at < bytes.len() {
                let end = bytes.len().min(at + size);
                message.piece(&bytes[at..end]).await.expect("sent");
                at = end;
                size = size * 5 % 9001 + 1;
            }
            message.end().await.expect("ended");
            until(|| done.get() == round).await;
            assert!(sum.take() == bytes, "round {round}");
        }
    });
}

#[test]
fn interleaved_messages_are_handled_at_the_same_time() {
    run(async {
        let (near, far) = (here(), here());
        let kept = keep(&far, TAKE);
        serve(&far);
        let peer = connect(&near, &far).await;
        let mut open = Vec::new();
        for number in 0..50_usize {
            let mut message = peer.begin(TAKE).expect("begun");
            message.piece(&pattern(number, 600)).await.expect("sent");
            open.push(message);
        }
        for message in &mut open {
            message.piece(&[1; 600]).await.expect("sent");
        }
        assert!(kept.borrow().is_empty());
        while let Some(message) = open.pop() {
            message.end_with(b"end").await.expect("sent");
        }
        until(|| kept.borrow().len() == 50).await;
        for number in (0..50).rev() {
            let got = kept.borrow_mut().pop_front().expect("a message");
            assert_eq!(got.len(), 1203);
            assert!(got[..600] == pattern(number, 600));
        }
    });
}

#[test]
fn a_receiver_that_does_not_extract_holds_back_its_sender_and_nobody_else() {
    run(async {
        let (near, idle, busy) = (here(), here(), here());
        let (late, kept) = (keep(&idle, TAKE), keep(&busy, TAKE));
        serve(&busy);
        let (to_idle, to_busy) = (connect(&near, &idle).await, connect(&near, &busy).await);
        let sent = Rc::new(Cell::new(0));
        let count = sent.clone();
        drop(spawn(async move {
            for number in 0..1000 {
                to_idle
                    .send(TAKE, &pattern(number, 10_000))
                    .await
                    .expect("sent");
                count.set(number + 1);
            }
        }));
        for number in 0..1000 {
            to_busy
                .send(TAKE, &pattern(number, 10_000))
                .await
                .expect("sent");
        }
        until(|| kept.borrow().len() == 1000).await;
        // The first credit, and no byte more.
        assert_eq!(sent.get(), 1);
        serve(&idle);
        until(|| late.borrow().len() == 1000).await;
        assert!(
            late.borrow()
                .iter()
                .enumerate()
                .all(|(n, got)| *got == pattern(n, 10_000))
        );
    });
}

#[test]
fn an_extraction_takes_no_more_than_it_was_asked_for() {
    run(async {
        let (near, far) = (here(), here());
        let taken = Rc::new(Cell::new(0));
        let sum = taken.clone();
        far.handle(TAKE, move |mut message| {
            let sum = sum.clone();
            async move {
                let mut room = [0; 1000];
                loop {
                    match message.read(&mut room).await? {
                        0 => return Ok(()),
                        n => sum.set(sum.get() + n),
                    }
                }
            }
        });
        let peer = connect(&near, &far).await;
        let sender = spawn(async move { peer.send(TAKE, &[7; 100_000]).await });
        let mut all = 0;
        while all < 100_000 {
            let n = far.extract(77).await.expect("extracted");
            assert!(n <= 77);
            all += n;
            assert_eq!(taken.get(), all);
        }
        sender.await.expect("sent");
    });
}

/// Both send requests as fast as they can, and both answer each with as many bytes. Neither has any memory left for the
/// other's requests most of the time.
#[test]
fn two_full_peers_do_not_block_each_other() {
    const COUNT: usize = 3000;
    run(async {
        let ends = [here(), here()];
        let mut answers = Vec::new();
        for end in &ends {
            end.handle(ECHO, |mut message| async move {
                let bytes = message.read_rest(1 << 20).await?;
                message.peer().send(ANSWER, &bytes).await
            });
            let count = Rc::new(Cell::new(0));
            let seen = count.clone();
            end.handle(ANSWER, move |message| {
                seen.set(seen.get() + 1);
                message.skip()
            });
            answers.push(count);
            serve(end);
        }
        for (from, to) in [(0, 1), (1, 0)] {
            let peer = connect(&ends[from], &ends[to]).await;
            for task in 0..4 {
                let peer = peer.clone();
                drop(spawn(async move {
                    for number in 0..COUNT / 4 {
                        let bytes = pattern(number, (number * 37 + task) % 20_000);
                        peer.send(ECHO, &bytes).await.expect("sent");
                    }
                }));
            }
        }
        until(|| answers.iter().all(|count| count.get() == COUNT)).await;
    });
}

/// The same without anybody who extracts beside: each sends, and extracts only between two messages.
#[test]
fn senders_receive_for_themselves_if_nobody_extracts() {
    run(async {
        let ends = [here(), here()];
        let kept = [keep(&ends[0], TAKE), keep(&ends[1], TAKE)];
        let first = connect(&ends[0], &ends[1]).await;
        while ends[1].peers().is_empty() {
            let _ = ends[1].extract_now(usize::MAX);
        }
        let second = ends[1].peers().remove(0);
        // More than the first credit of either, at the same time.
        type Kept = Rc<RefCell<VecDeque<Vec<u8>>>>;
        let flood = |peer: Peer, end: Rc<Endpoint>, kept: Kept| async move {
            for number in 0..200 {
                let bytes = [number; 5000];
                let mut send = pin!(peer.send(TAKE, &bytes));
                let mut sent = false;
                while !sent {
                    sent = poll_fn(|task| Poll::Ready(send.as_mut().poll(task).is_ready())).await;
                    let _ = end.extract_now(3000).expect("extracted");
                    until_next_turn().await;
                }
            }
            while kept.borrow().len() < 200 {
                let _ = end.extract_now(usize::MAX).expect("extracted");
                until_next_turn().await;
            }
        };
        let (one, two) = (
            spawn(flood(first, ends[0].clone(), kept[0].clone())),
            spawn(flood(second, ends[1].clone(), kept[1].clone())),
        );
        one.await;
        two.await;
        for kept in kept {
            let kept = kept.borrow();
            assert!(
                kept.iter()
                    .enumerate()
                    .all(|(n, got)| *got == [n as u8; 5000])
            );
        }
    });
}

#[test]
fn a_handler_that_takes_only_a_part_does_not_keep_the_next_ones() {
    run(async {
        let (near, far) = (here(), here());
        let kept = keep(&far, TAKE);
        far.handle(ECHO, |mut message: Incoming| async move {
            message.read_exact(&mut [0; 10]).await
        });
        serve(&far);
        let peer = connect(&near, &far).await;
        for number in 0..100 {
            peer.send(ECHO, &[1; 100_000]).await.expect("sent");
            peer.send(TAKE, &pattern(number, 100)).await.expect("sent");
        }
        until(|| kept.borrow().len() == 100).await;
    });
}

#[test]
fn a_handler_that_waits_does_not_keep_the_others() {
    run(async {
        let (near, far) = (here(), here());
        let kept = keep(&far, TAKE);
        let open = Rc::new(Cell::new(false));
        let gate = open.clone();
        let late = Rc::new(Cell::new(0));
        let sum = late.clone();
        far.handle(ECHO, move |mut message: Incoming| {
            let (gate, sum) = (gate.clone(), sum.clone());
            async move {
                until(|| gate.get()).await;
                sum.set(sum.get() + message.read_rest(1 << 20).await?.len());
                Ok(())
            }
        });
        serve(&far);
        let peer = connect(&near, &far).await;
        peer.send(ECHO, &[1; 5000]).await.expect("sent");
        for number in 0..100 {
            peer.send(TAKE, &pattern(number, 10_000))
                .await
                .expect("sent");
        }
        until(|| kept.borrow().len() == 100).await;
        assert_eq!(late.get(), 0);
        open.set(true);
        until(|| late.get() == 5000).await;
    });
}

/// However often, and without waiting.
#[test]
fn what_is_extracted_is_told() {
    run(async {
        let (near, far) = (here(), here());
        let kept = keep(&far, TAKE);
        let peer = connect(&near, &far).await;
        for number in 1..=50 {
            peer.send(TAKE, &pattern(number, 100)).await.expect("sent");
            let mut told = 0;
            while kept.borrow().len() < number {
                told += far.extract_now(usize::MAX).expect("extracted").unwrap_or(0);
                until_next_turn().await;
            }
            assert_eq!(told, 100, "message {number}");
        }
    });
}
