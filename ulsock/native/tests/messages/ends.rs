//! What ends early: messages that are dropped half-way, peers that go, talk nonsense, or never greet.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use super::common::run;
use super::endpoints::{connect, here, keep, pattern, serve, until, until_next_turn};
use super::{ECHO, TAKE};
use ulsock_native::message::{Endpoint, MessageError, Nonsense};
#[test]
fn a_message_that_is_dropped_half_way_is_aborted_and_others_are_not() {
    run(async {
        let (near, far) = (here(), here());
        let (kept, ends) = (keep(&far, TAKE), Rc::new(RefCell::new(Vec::new())));
        let outcomes = ends.clone();
        far.handle(ECHO, move |mut message| {
            let outcomes = outcomes.clone();
            async move {
                let end = message.read_rest(1 << 20).await;
                outcomes.borrow_mut().push(end.map(|bytes| bytes.len()));
                Ok(())
            }
        });
        serve(&far);
        let peer = connect(&near, &far).await;
        let mut dropped = peer.begin(ECHO).expect("begun");
        dropped.piece(&[1; 3000]).await.expect("sent");
        let unseen = peer.begin(ECHO).expect("begun");
        drop((dropped, unseen));
        peer.send(TAKE, b"whole").await.expect("sent");
        until(|| !kept.borrow().is_empty()).await;
        assert!(matches!(ends.borrow()[..], [Err(MessageError::Aborted)]));
    });
}

#[test]
fn a_piece_whose_future_is_dropped_spoils_nothing_but_its_message() {
    run(async {
        let (near, far) = (here(), here());
        let kept = keep(&far, TAKE);
        let peer = connect(&near, &far).await;
        for _ in 0..5 {
            let mut message = peer.begin(TAKE).expect("begun");
            let bytes = vec![9; 1 << 20];
            {
                let mut piece = pin!(message.piece(&bytes));
                poll_fn(|task| {
                    assert!(piece.as_mut().poll(task).is_pending());
                    Poll::Ready(())
                })
                .await;
            }
            assert!(matches!(message.end().await, Err(MessageError::Aborted)));
        }
        serve(&far);
        peer.send(TAKE, b"whole").await.expect("sent");
        until(|| !kept.borrow().is_empty()).await;
        assert_eq!(kept.borrow()[0], b"whole");
    });
}

#[test]
fn unknown_handlers_are_told_once() {
    run(async {
        let (near, far) = (here(), here());
        let kept = keep(&far, TAKE);
        serve(&far);
        serve(&near);
        let peer = connect(&near, &far).await;
        peer.send(99, b"nobody").await.expect("sent");
        peer.send(TAKE, b"somebody").await.expect("sent");
        until(|| kept.borrow().len() == 1).await;
        let refusal = loop {
            match peer.begin(99) {
                Ok(unused) => drop(unused),
                Err(refusal) => break refusal,
            }
            until_next_turn().await;
        };
        assert!(matches!(refusal, MessageError::NoHandler(99)));
        peer.begin(99).expect("told once");
        let all = keep(&far, 99);
        peer.send(99, b"now").await.expect("sent");
        until(|| all.borrow().len() == 1).await;
    });
}

#[test]
fn what_was_sent_before_the_end_is_still_handled() {
    run(async {
        let (near, far) = (here(), here());
        let kept = keep(&far, TAKE);
        let peer = connect(&near, &far).await;
        for number in 0..30 {
            peer.send(TAKE, &pattern(number, 100)).await.expect("sent");
        }
        peer.close().await;
        drop(near);
        serve(&far);
        until(|| kept.borrow().len() == 30).await;
        until(|| far.peers().is_empty()).await;
    });
}

#[test]
fn a_peer_that_is_gone_ends_what_waits_for_it() {
    run(async {
        let (near, far) = (here(), here());
        let error = Rc::new(RefCell::new(None));
        let seen = error.clone();
        far.handle(TAKE, move |mut message| {
            let seen = seen.clone();
            async move {
                *seen.borrow_mut() = message.read_rest(1 << 20).await.err();
                Ok(())
            }
        });
        serve(&far);
        let peer = connect(&near, &far).await;
        let mut message = peer.begin(TAKE).expect("begun");
        message.piece(&[1; 5000]).await.expect("sent");
        until(|| far.peers().len() == 1).await;
        let back = far.peers().remove(0);
        std::mem::forget(message);
        peer.close().await;
        assert!(matches!(back.gone().await, MessageError::PeerGone));
        until(|| error.borrow().is_some()).await;
        assert!(matches!(
            back.begin(TAKE).err(),
            Some(MessageError::PeerGone)
        ));
    });
}

#[test]
fn strangers_and_liars_are_closed_and_others_go_on() {
    run(async {
        let near = here();
        let far = Endpoint::bind_with_window("127.0.0.1:0", 16 << 10).expect("an endpoint");
        let far = Rc::new(far);
        let kept = keep(&far, TAKE);
        serve(&far);
        let peer = connect(&near, &far).await;
        let frame = |kind: u8, len: u32, word: u32| {
            let mut all = GREETING.to_vec();
            all.extend(
                (u64::from(word) << 32 | u64::from(kind) << 24 | u64::from(len)).to_le_bytes(),
            );
            all
        };
        let lies = [
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            frame(0, 0, 0),
            frame(0x0f, 0, 0),
            // More than it has credit for.
            frame(1 | 0x10, 60_000, 3),
            // A part of a message that has not begun; the end of one.
            frame(1, 10, 5 << 16),
            frame(4, 0, 5 << 16),
            // Credit without end.
            frame(2, 0, u32::MAX),
        ];
        for lie in lies {
            let address = far.local_addr().expect("an address");
            let mut stranger = std::net::TcpStream::connect(address).expect("a connection");
            stranger.write_all(&lie).expect("sent");
            stranger.set_nonblocking(true).expect("an option");
            let mut room = [0; 1000];
            loop {
                match stranger.read(&mut room) {
                    Ok(0) => break,
                    Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
                    _ => until_next_turn().await,
                }
            }
            peer.send(TAKE, b"still here").await.expect("sent");
            until(|| !kept.borrow().is_empty()).await;
            kept.borrow_mut().clear();
        }
        until(|| far.peers().len() == 1).await;
    });
}

#[test]
fn a_server_of_something_else_is_told_by_its_greeting() {
    run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let near = here();
        let address = listener.local_addr().expect("an address");
        let peer = near.connect(address).await.expect("a connection");
        let (mut other, _) = listener.accept().expect("accepted");
        other
            .write_all(b"220 mail.example ESMTP\r\n")
            .expect("sent");
        serve(&near);
        let why = peer.gone().await;
        assert!(
            matches!(why, MessageError::Nonsense(Nonsense::Greeting)),
            "{why}"
        );
    });
}

#[test]
fn who_never_greets_does_not_keep_others_out() {
    run(async {
        let (near, far) = (here(), here());
        let kept = keep(&far, TAKE);
        serve(&far);
        let address = far.local_addr().expect("an address");
        let peer = connect(&near, &far).await;
        let silent: Vec<_> = (0..200)
            .map(|_| std::net::TcpStream::connect(address).expect("a connection"))
            .collect();
        peer.send(TAKE, b"old").await.expect("sent");
        let late = connect(&near, &far).await;
        late.send(TAKE, b"new").await.expect("sent");
        until(|| kept.borrow().len() == 2).await;
        let is_closed = |stream: &std::net::TcpStream| {
            stream.set_nonblocking(true).expect("an option");
            let mut stream = stream;
            // A greeting comes before the end.
            let _ = stream.read(&mut [0; 100]);
            !matches!(stream.read(&mut [0; 100]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        };
        until(|| silent.iter().filter(|stream| is_closed(stream)).count() >= 130).await;
    });
}

#[test]
fn a_handler_cannot_extract() {
    run(async {
        let (near, far) = (here(), here());
        let outcome = Rc::new(RefCell::new(None));
        let (seen, inner) = (outcome.clone(), Rc::downgrade(&far));
        far.handle(TAKE, move |message| {
            let (seen, inner) = (seen.clone(), inner.clone());
            async move {
                let endpoint = inner.upgrade().expect("it runs");
                *seen.borrow_mut() = Some(endpoint.extract_now(1).err());
                message.skip().await
            }
        });
        serve(&far);
        let peer = connect(&near, &far).await;
        peer.send(TAKE, b"x").await.expect("sent");
        until(|| outcome.borrow().is_some()).await;
        assert!(matches!(
            outcome.take(),
            Some(Some(MessageError::Extracting))
        ));
    });
}

/// Frames that are valid for the most part, in any order, with any numbers, cut anywhere.
#[test]
fn random_frames_harm_nobody_else() {
    run(async {
        let near = here();
        let far =
            Rc::new(Endpoint::bind_with_window("127.0.0.1:0", 32 << 10).expect("an endpoint"));
        let kept = keep(&far, TAKE);
        far.handle(ECHO, |message| async move {
            let peer = message.peer();
            message.skip().await?;
            peer.send(ECHO, b"answer").await
        });
        serve(&far);
        let address = far.local_addr().expect("an address");
        let peer = connect(&near, &far).await;
        let mut random = Random(88_172_645_463_325_252);
        for round in 0..150 {
            let mut stranger = std::net::TcpStream::connect(address).expect("a connection");
            stranger.set_nonblocking(true).expect("an option");
            let mut bytes = GREETING.to_vec();
            for _ in 0..random.below(60) {
                random.frame(&mut bytes);
            }
            bytes.truncate(bytes.len() - random.below(20));
            for part in bytes.chunks(1 + random.below(5000)) {
                if stranger.write(part).is_err() {
                    break;
                }
                until_next_turn().await;
            }
            peer.send(TAKE, &pattern(round, 3000)).await.expect("sent");
            let expected = pattern(round, 3000);
            until(|| kept.borrow().contains(&expected)).await;
            kept.borrow_mut().clear();
        }
        until(|| far.peers().len() == 1).await;
    });
}

const GREETING: &[u8; 16] = b"ulsock-m\x01\0\0\0\0\0\0\0";

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    fn frame(&mut self, bytes: &mut Vec<u8>) {
        let flags = [0, 0x10, 0x20, 0x30, 0x40, 0x70][self.below(6)];
        let kind = [1, 1, 1, 1, 2, 3, 4, 9][self.below(8)] | flags;
        let carries = kind & 0x0f == 1;
        let most = [1, 100, 5000][self.below(3)];
        let len = if carries { self.below(most) } else { 0 };
        let handler = [TAKE, ECHO, 99][self.below(3)];
        let handler = if kind & 0x10 != 0 || !carries {
            handler
        } else {
            0
        };
        let word = (self.below(4) as u64) << 48 | u64::from(handler) << 32;
        bytes.extend((word | u64::from(kind as u8) << 24 | len as u64).to_le_bytes());
        bytes.resize(bytes.len() + len, 7);
    }
}
