//! Messages, whatever is done to them on their way, and how a channel ends.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[test]
fn both_know_each_other_and_messages_pass() {
    let cluster = Cluster::new();
    let (mut caller, mut called) = cluster.pair();
    assert_eq!((caller.peer(), called.peer()), (Some(1), Some(0)));
    assert_eq!(caller.key(), Some(cluster.identities[1].public()));
    assert_eq!(called.key(), Some(cluster.identities[0].public()));
    for size in [1, 2, 17, MESSAGE - 1, MESSAGE] {
        let message = vec![size as u8; size];
        caller.send(&message).unwrap();
        called.send(&message).unwrap();
        for end in [&mut caller, &mut called] {
            let started = Instant::now();
            let heard = loop {
                end.progress(cluster.now).unwrap();
                if let Some(heard) = end.recv() {
                    break heard;
                }
                assert!(started.elapsed() < Duration::from_secs(20));
            };
            assert_eq!(heard, message);
        }
    }
    assert_eq!(caller.send(&[]), Err(NotSent::Length));
    assert_eq!(caller.send(&[0; MESSAGE + 1]), Err(NotSent::Length));
}

#[test]
fn what_is_sent_before_the_handshake_goes_out_after_it() {
    let cluster = Cluster::new();
    let mut caller = cluster.call();
    caller.send(b"one").unwrap();
    caller.send(b"two").unwrap();
    let mut called = cluster.take().unwrap();
    called.send(b"three").unwrap();
    turns(cluster.now, &mut caller, &mut called, |a, b| {
        a.inbox.len() == 1 && b.inbox.len() == 2
    })
    .unwrap();
    assert_eq!(called.recv().unwrap(), b"one");
    assert_eq!(called.recv().unwrap(), b"two");
    assert_eq!(caller.recv().unwrap(), b"three");
}

#[test]
fn whatever_is_changed_on_the_way_ends_the_channel() {
    for flip in [0, 1, 2, 10, 2 + 5 + 16 - 1] {
        let cluster = Cluster::new();
        let (mut caller, mut called) = cluster.pair();
        caller.noise.seal(b"hello", &mut caller.outbound);
        caller.outbound.flip(flip);
        // A longer frame than was sent needs more bytes to be judged.
        caller.noise.seal(&[0; MESSAGE], &mut caller.outbound);
        caller.progress(cluster.now).unwrap();
        assert!(
            matches!(
                end(&mut called, cluster.now),
                Closed::Forged | Closed::Length(_)
            ),
            "{flip}"
        );
        assert!(called.recv().is_none());
    }
}

#[test]
fn a_frame_that_comes_twice_ends_the_channel() {
    let cluster = Cluster::new();
    let (mut caller, mut called) = cluster.pair();
    caller.noise.seal(b"hello", &mut caller.outbound);
    caller.outbound.repeat();
    caller.progress(cluster.now).unwrap();
    assert!(matches!(end(&mut called, cluster.now), Closed::Forged));
    assert_eq!(called.recv().unwrap(), b"hello");
    assert!(called.recv().is_none());
}

#[test]
fn who_does_not_read_fills_a_bounded_backlog() {
    let cluster = Cluster::new();
    let (mut caller, mut called) = cluster.pair();
    let mut sent = 0;
    while caller.send(&[sent as u8; MESSAGE]).is_ok() {
        caller.progress(cluster.now).unwrap();
        assert!(caller.outbound.len() <= BACKLOG + 64 * 18);
        sent += 1;
        assert!(sent < 100_000);
    }
    assert_eq!(caller.send(&[0; MESSAGE]), Err(NotSent::Full));
    // The other side takes in no more than its own bound, and then all of it as it is fetched.
    for _ in 0..1000 {
        called.progress(cluster.now).unwrap();
    }
    assert!(called.inbox.len() <= INBOX + (16 << 10) / MESSAGE);
    let mut heard = 0;
    let started = Instant::now();
    while heard < sent {
        caller.progress(cluster.now).unwrap();
        called.progress(cluster.now).unwrap();
        while let Some(message) = called.recv() {
            assert_eq!(message, [heard as u8; MESSAGE]);
            heard += 1;
        }
        assert!(started.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn messages_before_the_end_can_be_fetched() {
    let cluster = Cluster::new();
    let (mut caller, mut called) = cluster.pair();
    caller.send(b"last words").unwrap();
    drop(caller);
    assert!(matches!(end(&mut called, cluster.now), Closed::Ended));
    assert_eq!(called.recv().unwrap(), b"last words");
}

#[test]
fn nobody_listens_there() {
    let cluster = Cluster::new();
    let mut gone = cluster.other().clone();
    gone.control.set_ip([127, 0, 0, 9].into());
    let outcome = dial(cluster.own(), &gone).and_then(|stream| {
        let mut caller = Secure::connect(stream, &cluster.identities[0], &gone, cluster.now)?;
        match end(&mut caller, cluster.now) {
            Closed::Io(error) => Err(error),
            why => panic!("{why}"),
        }
    });
    assert_eq!(
        outcome.map(|_: Secure| ()).unwrap_err().kind(),
        io::ErrorKind::ConnectionRefused
    );
}

/// What a man in the middle does to the caller's bytes: hands them on in pieces, and changes one.
struct Middle {
    pieces: Vec<usize>,
    /// At this byte of the stream, by these bits.
    change: Option<(usize, u8)>,
    passed: usize,
    turn: usize,
}

impl Middle {
    /// A changed length may leave the called side waiting for bytes that never come.
    fn patience(&self) -> Duration {
        match self.change {
            Some(_) => Duration::from_millis(20),
            None => Duration::from_secs(20),
        }
    }

    fn pass_on(&mut self, from: &mut TcpStream, to: &mut TcpStream) {
        let piece = self.pieces[self.turn % self.pieces.len()];
        self.turn += 1;
        let mut bytes = vec![0; piece];
        let count = from.read(&mut bytes).unwrap_or(0);
        if let Some((at, bits)) = self.change
            && let Some(byte) = at
                .checked_sub(self.passed)
                .and_then(|at| bytes[..count].get_mut(at))
        {
            *byte ^= bits;
        }
        self.passed += count;
        let _ = to.write_all(&bytes[..count]);
    }
}

/// What the called side hears of a caller's messages through him, and how its channel ended.
fn through(middle: &mut Middle, messages: &[Vec<u8>]) -> (Vec<Vec<u8>>, Option<Closed>) {
    let cluster = Cluster::new();
    let (mut tap, mut called) = cluster.bare();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (own, other) = (&cluster.identities[0], cluster.other());
    let mut caller = Secure::connect(stream, own, other, cluster.now).unwrap();
    let (mut honest, _) = listener.accept().unwrap();
    tap.set_nonblocking(true).unwrap();
    honest.set_nonblocking(true).unwrap();
    tap.set_nodelay(true).unwrap();
    for message in messages {
        caller.send(message).unwrap();
    }
    let mut heard = Vec::new();
    let (mut passed, mut since) = (0, Instant::now());
    while heard.len() < messages.len() && since.elapsed() < middle.patience() {
        let _ = caller.progress(cluster.now);
        middle.pass_on(&mut honest, &mut tap);
        let progress = called.progress(cluster.now);
        heard.extend(std::iter::from_fn(|| called.recv()));
        if let Err(why) = progress {
            return (heard, Some(why));
        }
        pass_on(&mut tap, &mut honest);
        if middle.passed != passed {
            (passed, since) = (middle.passed, Instant::now());
        }
    }
    (heard, None)
}

fn messages() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(vec(any::<u8>(), 1..=MESSAGE), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn however_the_stream_is_cut_the_messages_are_the_same(messages in messages(), pieces in vec(1usize..200, 1..8)) {
        let mut middle = Middle { pieces, change: None, passed: 0, turn: 0 };
        let (heard, closed) = through(&mut middle, &messages);
        prop_assert!(closed.is_none());
        prop_assert_eq!(heard, messages);
    }

    /// Whatever is changed, nothing is heard that was not said: at most the messages before it.
    #[test]
    fn whatever_is_changed_nothing_else_is_heard(messages in messages(), at in 0usize..1200, bits in 1u8..) {
        let mut middle = Middle { pieces: vec![4096], change: Some((at, bits)), passed: 0, turn: 0 };
        let (heard, closed) = through(&mut middle, &messages);
        prop_assert!(messages.starts_with(&heard));
        if at < middle.passed {
            prop_assert!(heard.len() < messages.len());
        }
        if let Some(why) = closed {
            prop_assert!(matches!(why, Closed::Forged | Closed::Length(_) | Closed::Unwelcome | Closed::Ended), "{}", why);
        }
    }

    /// Bytes that nobody has made for us end the channel or wait for more, on either side.
    #[test]
    fn any_bytes_at_all_do_no_harm(bytes in vec(any::<u8>(), 0..3000), is_called in any::<bool>()) {
        let cluster = Cluster::new();
        let (mut stream, mut end) = match is_called {
            true => cluster.bare(),
            false => {
                let caller = cluster.call();
                (cluster.listener.accept().unwrap().0, caller)
            }
        };
        stream.write_all(&bytes).unwrap();
        drop(stream);
        while end.progress(cluster.now).is_ok() {}
        prop_assert!(end.recv().is_none());
        prop_assert!(end.peer().is_none());
    }
}
