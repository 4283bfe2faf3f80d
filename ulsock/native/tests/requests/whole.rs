//! Calls that get their replies: of all lengths, many at a time, as streams, in both directions.

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use ulsock_native::message::Endpoint;
use ulsock_native::request::{Decode, Encode, Failure, Limits, RequestError, Requests};
use ulsock_native::run::spawn;

use super::common::{begin, run};
use super::help::{Count, ECHO, NEVER, STREAM, SUM, Server, begun, pair, pattern, turn, until};

#[test]
fn bytes_of_all_lengths_come_back() {
    run(async {
        let (_near, _far, caller) = pair().await;
        for len in [0, 1, 63, 64, 480, 484, 485, 512, 4096, 65_536, 1_000_003] {
            let bytes = pattern(len, len);
            let reply = caller.call(ECHO, &bytes).await.expect("a reply");
            assert!(reply == bytes, "{len} bytes");
        }
    });
}

#[test]
fn many_at_a_time_have_each_its_own_reply() {
    run(async {
        let (_near, _far, caller) = pair().await;
        let tasks: Vec<_> = (0..3000_usize)
            .map(|number| {
                let caller = caller.clone();
                spawn(async move {
                    let bytes = pattern(number, number % 700);
                    assert!(caller.call(ECHO, &bytes).await.expect("a reply") == bytes);
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
    });
}

struct Numbers(Vec<u32>);

impl Encode for Numbers {
    type Error = &'static str;

    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), &'static str> {
        if self.0.contains(&13) {
            return Err("13 brings bad luck");
        }
        bytes.extend(self.0.iter().flat_map(|number| number.to_le_bytes()));
        Ok(())
    }
}

impl Decode for Numbers {
    type Error = &'static str;

    fn decode(bytes: Vec<u8>) -> Result<Numbers, &'static str> {
        let (numbers, rest) = bytes.as_chunks();
        match rest.is_empty() {
            true => Ok(Numbers(
                numbers
                    .iter()
                    .map(|bytes| u32::from_le_bytes(*bytes))
                    .collect(),
            )),
            false => Err("no whole numbers"),
        }
    }
}

#[test]
fn types_of_the_program() {
    run(async {
        let (_near, far, caller) = pair().await;
        far.requests.answer(SUM, |numbers: Numbers| async move {
            Ok(Numbers(vec![numbers.0.iter().sum()]))
        });
        let sum: Numbers = caller
            .ask(SUM, &Numbers(vec![1, 2, 3]))
            .await
            .expect("a sum");
        assert_eq!(sum.0, [6]);
        let unlucky = caller.ask::<_, Numbers>(SUM, &Numbers(vec![13])).await;
        assert!(matches!(unlucky, Err(RequestError::Encode(text)) if text.contains("luck")));
        let unlucky = caller.ask::<_, Numbers>(SUM, &Numbers(vec![6, 7])).await;
        assert!(matches!(unlucky, Err(RequestError::Failed(why)) if why.text.contains("luck")));
        let odd = caller.call(SUM, &[1; 7]).await;
        assert!(matches!(odd, Err(RequestError::BadRequest(text)) if text == "no whole numbers"));
        let odd = caller.ask::<_, Numbers>(ECHO, &vec![1_u8; 7]).await;
        assert!(matches!(odd, Err(RequestError::BadReply(text)) if text == "no whole numbers"));
    });
}

/// Each byte comes back before the next is sent, in pieces that are smaller than any frame.
#[test]
fn both_sides_stream_in_turn() {
    run(async {
        let (_near, far, caller) = pair().await;
        far.requests
            .stream(STREAM, |mut body, mut reply| async move {
                let mut room = [0; 100];
                loop {
                    match body.read(&mut room).await? {
                        0 => return Ok(reply.end_with(b"end").await?),
                        n => reply.piece(&room[..n]).await?,
                    }
                    reply.push().await?;
                }
            });
        let (mut writer, mut reader) = caller.open(STREAM).await.expect("a call");
        for round in 0..500_usize {
            let bytes = pattern(round, round % 90 + 1);
            writer.piece(&bytes).await.expect("sent");
            writer.push().await.expect("sent");
            let mut back = vec![0; bytes.len()];
            reader.read_exact(&mut back).await.expect("it comes back");
            assert!(back == bytes);
        }
        writer.end().await.expect("sent");
        let mut rest = [0; 10];
        reader.read_exact(&mut rest[..3]).await.expect("the end");
        assert_eq!(&rest[..3], b"end");
        assert_eq!(reader.read(&mut rest).await.expect("the end"), 0);
    });
}

/// Much more than any window, in both directions at once.
#[test]
fn long_streams_both_ways_at_once() {
    const LEN: usize = 8 << 20;
    run(async {
        let (_near, far, caller) = pair().await;
        far.requests
            .stream(STREAM, |mut body, mut reply| async move {
                let mut room = vec![0; 50_000];
                loop {
                    match body.read(&mut room).await? {
                        0 => return Ok(reply.end().await?),
                        n => reply.piece(&room[..n]).await?,
                    }
                }
            });
        let (mut writer, mut reader) = caller.open(STREAM).await.expect("a call");
        let sender = spawn(async move {
            for piece in pattern(1, LEN).chunks(70_001) {
                writer.piece(piece).await.expect("sent");
            }
            writer.end().await.expect("sent");
        });
        let mut back = vec![0; LEN];
        reader.read_exact(&mut back).await.expect("it comes back");
        assert!(back == pattern(1, LEN));
        assert_eq!(reader.read(&mut back).await.expect("the end"), 0);
        sender.await;
    });
}

/// Also if some of those that wait are dropped.
#[test]
fn no_more_handlers_run_than_may() {
    run(async {
        let limits = Limits {
            calls: 3,
            ..Limits::default()
        };
        let (near, far) = (Server::new(), Server::with(limits));
        let running = Count::default();
        let (count, most) = (running.clone(), Rc::new(Cell::new(0)));
        let seen = most.clone();
        far.requests.answer(SUM, move |bytes: Vec<u8>| {
            let (count, seen) = (count.clone(), seen.clone());
            async move {
                let _counted = count.one();
                seen.set(seen.get().max(count.get()));
                for _ in 0..20 {
                    turn().await;
                }
                Ok(bytes)
            }
        });
        let caller = near.caller(&far).await;
        let mut dropped: Vec<_> = (0..100).map(|_| Box::pin(caller.call(SUM, b""))).collect();
        for call in &mut dropped {
            assert!(begun(call).await.is_pending());
        }
        let tasks: Vec<_> = (0..200_usize)
            .map(|number| {
                let caller = caller.clone();
                spawn(async move {
                    let bytes = pattern(number, 50);
                    assert!(caller.call(SUM, &bytes).await.expect("a reply") == bytes);
                })
            })
            .collect();
        for (at, task) in tasks.into_iter().enumerate() {
            if at % 2 == 0 {
                drop(dropped.pop());
            }
            task.await;
        }
        assert_eq!(most.get(), 3);
        assert_eq!(running.get(), 0);
    });
}

/// Both call as fast as they can, with more than any window, and both answer.
#[test]
fn two_that_flood_each_other_do_not_block() {
    const TASKS: usize = 100;
    run(async {
        let (near, far) = (Server::new(), Server::new());
        let there = near.caller(&far).await;
        until(|| !far.endpoint.peers().is_empty()).await;
        let back = far.requests.caller(&far.endpoint.peers()[0]);
        let mut tasks = Vec::new();
        for number in 0..TASKS {
            for caller in [there.clone(), back.clone()] {
                tasks.push(spawn(async move {
                    for round in 0..5 {
                        let bytes = pattern(number * round, 20_000);
                        assert!(caller.call(ECHO, &bytes).await.expect("a reply") == bytes);
                    }
                }));
            }
        }
        for task in tasks {
            task.await;
        }
    });
}

/// A handler calls its caller before it answers.
#[test]
fn handlers_call_back() {
    run(async {
        let (_near, far, caller) = pair().await;
        until(|| !far.endpoint.peers().is_empty()).await;
        let back = far.requests.caller(&far.endpoint.peers()[0]);
        far.requests.answer(SUM, move |bytes: Vec<u8>| {
            let back = back.clone();
            async move { Ok(back.call(ECHO, &bytes).await?) }
        });
        let tasks: Vec<_> = (0..200_usize)
            .map(|number| {
                let caller = caller.clone();
                spawn(async move {
                    let bytes = pattern(number, 5000);
                    assert!(caller.call(SUM, &bytes).await.expect("a reply") == bytes);
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
    });
}

/// Nobody serves the near endpoint but those who wait for their calls, in any order of their ends.
#[test]
fn callers_serve_for_themselves() {
    run(async {
        let far = Server::new();
        let endpoint = Rc::new(Endpoint::new());
        let requests = Rc::new(Requests::new(&endpoint).expect("requests"));
        let caller = requests.connect(far.address()).await.expect("a connection");
        let tasks: Vec<_> = (0..20_u64)
            .map(|number| {
                let (requests, caller) = (requests.clone(), caller.clone());
                spawn(async move {
                    let caller = caller.within(Duration::from_millis(40 - number));
                    let call = caller.call([ECHO, NEVER][number as usize % 2], b"x");
                    requests.while_served(call).await
                })
            })
            .collect();
        for (number, task) in tasks.into_iter().enumerate() {
            match (number % 2, task.await) {
                (0, Ok(reply)) => assert_eq!(reply, b"x"),
                (1, Err(RequestError::DeadlineExceeded)) => {}
                (_, other) => panic!("{other:?}"),
            }
        }
    });
}

/// A thread of ulsock's waits for the streams and for the deadlines.
#[test]
fn under_another_executor() {
    begin();
    let executor = smol::LocalExecutor::new();
    let done = executor.run(async {
        let server = Rc::new(Endpoint::bind("127.0.0.1:0").expect("an endpoint"));
        let requests = Requests::new(&server).expect("requests");
        requests.answer(ECHO, |bytes: Vec<u8>| async move { Ok(bytes) });
        requests.answer(NEVER, |_: Vec<u8>| pending::<Result<Vec<u8>, Failure>>());
        let address = server.local_addr().expect("an address");
        let serving = executor.spawn(async move { server.serve().await });
        let endpoint = Rc::new(Endpoint::new());
        let calls = Requests::new(&endpoint).expect("requests");
        let caller = calls.connect(address).await.expect("a connection");
        calls
            .while_served(async {
                for _ in 0..100 {
                    assert_eq!(caller.call(ECHO, b"x").await.expect("a reply"), b"x");
                }
                let caller = caller.within(Duration::from_millis(20));
                let late = caller.call(NEVER, b"").await;
                assert!(matches!(late, Err(RequestError::DeadlineExceeded)));
            })
            .await;
        drop(serving);
    });
    smol::block_on(done);
}
