//! Calls that are refused, handlers that fail, and peers that talk nonsense.

use std::rc::Rc;

use ulsock_native::message::{Endpoint, MessageError, Nonsense};
use ulsock_native::request::{Failure, Limits, RequestError, Requests};
use ulsock_native::run::spawn;

use super::common::run;
use super::help::{CALL, ECHO, FAIL, NEVER, STREAM, Server, UNKNOWN, pair, turn, until};

const REPLY: u16 = 0xff01;
const CANCEL: u16 = 0xff02;

#[test]
fn who_has_no_such_service_says_so() {
    run(async {
        let (near, _far, caller) = pair().await;
        let none = caller.call(UNKNOWN, &[0; 100_000]).await;
        assert!(matches!(none, Err(RequestError::NoService(UNKNOWN))));
        assert_eq!(caller.call(ECHO, b"x").await.expect("a reply"), b"x");
        // One that has no requests at all.
        let plain = Rc::new(Endpoint::bind("127.0.0.1:0").expect("an endpoint"));
        let address = plain.local_addr().expect("an address");
        drop(spawn(async move { plain.serve().await }));
        let caller = near.requests.connect(address).await.expect("a connection");
        for _ in 0..3 {
            let none = caller.call(ECHO, b"").await;
            assert!(matches!(none, Err(RequestError::NoService(ECHO))));
        }
    });
}

#[test]
fn what_a_handler_says_comes_to_its_caller() {
    run(async {
        let (near, far, caller) = pair().await;
        far.requests.answer(FAIL, |bytes: Vec<u8>| async move {
            Err::<Vec<u8>, _>(Failure::new(42, "x".repeat(bytes.len() * 1000)))
        });
        far.requests
            .stream(STREAM, |mut body, mut reply| async move {
                let mut first = [0; 1];
                body.read_exact(&mut first).await?;
                reply.piece(&[1; 2000]).await?;
                match first[0] {
                    0 => Ok(()),
                    _ => Err("half of it is enough".into()),
                }
            });
        for len in [0, 1, 5] {
            let failed = caller.call(FAIL, &vec![0; len]).await;
            let text = "x".repeat((len * 1000).min(1024));
            let expected = Failure::new(42, text);
            assert!(matches!(failed, Err(RequestError::Failed(failure)) if failure == expected));
        }
        for first in [0, 1] {
            let (writer, mut reader) = caller.open(STREAM).await.expect("a call");
            writer.end_with(&[first]).await.expect("sent");
            let failed = reader.read_exact(&mut [0; 2001]).await;
            match first {
                0 => assert!(matches!(failed, Err(RequestError::NoReply))),
                _ => assert!(
                    matches!(failed, Err(RequestError::Failed(why)) if why.text.contains("half"))
                ),
            }
        }
        let limits = Limits {
            body: 1000,
            ..Limits::default()
        };
        let small = Server::with(limits);
        let to_small = near.caller(&small).await;
        assert!(to_small.call(ECHO, &[1; 1000]).await.is_ok());
        let long = to_small.call(ECHO, &[1; 1001]).await;
        assert!(matches!(long, Err(RequestError::BadRequest(_))));
        let from_small = small.caller(&far).await;
        let long = from_small.call(ECHO, &[1; 1001]).await;
        assert!(matches!(long, Err(RequestError::BadReply(_))));
        assert!(from_small.call(ECHO, &[1; 1000]).await.is_ok());
    });
}

/// What a peer sends to a number of ours, and what becomes of it.
async fn nonsense(number: u16, messages: &[&[u8]]) -> bool {
    let far = Server::new();
    let raw = Rc::new(Endpoint::new());
    let other = raw.clone();
    drop(spawn(async move { other.serve().await }));
    let peer = raw.connect(far.address()).await.expect("a connection");
    for message in messages {
        let _ = peer.send(number, message).await;
    }
    // Others are served all the while.
    let near = Server::new();
    let caller = near.caller(&far).await;
    for _ in 0..50 {
        assert_eq!(caller.call(ECHO, b"x").await.expect("a reply"), b"x");
    }
    peer.is_gone()
}

#[test]
fn who_talks_nonsense_is_left() {
    run(async {
        let mut call = [0; 20];
        call[8..16].fill(0xff);
        call[16] = NEVER as u8;
        assert!(!nonsense(CALL, &[&call]).await);
        assert!(nonsense(CALL, &[&call, &call]).await, "a number twice");
        assert!(nonsense(CALL, &[&call[..19]]).await, "half a header");
        assert!(nonsense(CALL, &[b""]).await, "nothing");
        call[19] = 1;
        assert!(nonsense(CALL, &[&call]).await, "what is not known");
        assert!(!nonsense(REPLY, &[&[0; 12]]).await, "an unknown call");
        assert!(nonsense(REPLY, &[&[9; 12]]).await, "an unknown status");
        assert!(nonsense(REPLY, &[&[0; 11]]).await, "half a header");
        assert!(!nonsense(CANCEL, &[&[0; 8]]).await, "an unknown call");
        assert!(nonsense(CANCEL, &[&[0; 7]]).await, "half a header");
    });
}

/// A server that replies twice to one call, or to one of another peer.
#[test]
fn replies_that_make_no_sense() {
    run(async {
        let near = Server::new();
        let endpoint = Rc::new(Endpoint::bind("127.0.0.1:0").expect("an endpoint"));
        let address = endpoint.local_addr().expect("an address");
        let serving = endpoint.clone();
        drop(spawn(async move { serving.serve().await }));
        let caller = near.requests.connect(address).await.expect("a connection");
        let open = caller.open(NEVER).await.expect("a call");
        until(|| !endpoint.peers().is_empty()).await;
        let peer = endpoint.peers()[0].clone();
        // The first call of an endpoint: made once, in the first place.
        let mut reply = [0; 12];
        reply[..8].copy_from_slice(&(1_u64 << 32).to_le_bytes());
        let strange = near.requests.connect(address).await.expect("a connection");
        until(|| endpoint.peers().len() == 2).await;
        let other = endpoint.peers().into_iter().find(|other| *other != peer);
        let other = other.expect("the second");
        for _ in 0..2 {
            other.send(REPLY, &reply).await.expect("sent");
        }
        peer.send(REPLY, &reply).await.expect("sent");
        for _ in 0..1000 {
            turn().await;
        }
        assert!(!strange.peer().is_gone() && !caller.peer().is_gone());
        peer.send(REPLY, &reply).await.expect("sent");
        until(|| caller.peer().is_gone()).await;
        drop(open);
        let why = caller.peer().gone().await;
        let expected = MessageError::Nonsense(Nonsense::Request).to_string();
        assert_eq!(why.to_string(), expected);
    });
}

#[test]
#[should_panic(expected = "0xff00 is reserved")]
fn numbers_of_ours_are_not_the_programs() {
    run(async { Endpoint::new().handle(0xff00, |message| message.skip()) });
}

#[test]
fn an_endpoint_has_requests_once() {
    run(async {
        let endpoint = Rc::new(Endpoint::new());
        let first = Requests::new(&endpoint).expect("requests");
        assert!(Requests::new(&endpoint).is_err());
        drop(first);
    });
}
