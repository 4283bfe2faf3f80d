//! Futures within one process: what is cancelled, wakers that are gone, loops that end, and room and views by tasks.

mod common;

use std::future::Future;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::{begin, run};
use ulsock_native::future::{TcpListener, TcpStream};
use ulsock_native::run::spawn;
use ulsock_native::{InPlaceError, OutOfRange};

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("an address");
    let near = TcpStream::connect(address).await.expect("connect");
    let (far, _) = listener.accept().await.expect("accept");
    (near, far)
}

/// Round trips until the connection is on rings.
async fn warm(near: &TcpStream, far: &TcpStream) {
    for _ in 0..200 {
        for (from, to) in [(near, far), (far, near)] {
            from.write_all(b"warm").await.expect("write");
            to.read_exact(&mut [0; 4]).await.expect("read");
        }
    }
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A read that has been polled and dropped has taken nothing; the next one gets every byte.
#[test]
fn a_cancelled_read_loses_nothing() {
    run(async {
        let (near, far) = pair().await;
        warm(&near, &far).await;
        for round in 0..2000_u32 {
            let mut room = [0; 4];
            {
                let waker = Waker::from(Arc::new(Count::default()));
                let read = pin!(far.read(&mut room));
                assert!(read.poll(&mut Context::from_waker(&waker)).is_pending());
            }
            near.write_all(&round.to_le_bytes()).await.expect("write");
            far.read_exact(&mut room).await.expect("read");
            assert_eq!(u32::from_le_bytes(room), round);
        }
    });
}

/// Its waker's task is gone: others are woken, and what is polled with ever new wakers keeps only some of them.
#[test]
fn wakers_come_and_go() {
    run(async {
        let (near, far) = pair().await;
        warm(&near, &far).await;
        let counts: Vec<Arc<Count>> = (0..1000).map(|_| Arc::default()).collect();
        let mut room = [0; 4];
        for count in &counts {
            let waker = Waker::from(count.clone());
            let read = pin!(far.read(&mut room));
            assert!(read.poll(&mut Context::from_waker(&waker)).is_pending());
        }
        let held = counts.iter().filter(|count| Arc::strong_count(count) > 1);
        assert!(held.count() <= 32, "wakers are not kept for ever");
        let reader = spawn(async move {
            let mut room = [0; 4];
            far.read_exact(&mut room).await.expect("read");
            room
        });
        near.write_all(b"here").await.expect("write");
        assert_eq!(&reader.await, b"here");
    });
}

/// Neither side waits for the other's first byte in vain, whoever comes first.
#[test]
fn two_tasks_on_one_stream() {
    run(async {
        let (near, far) = pair().await;
        let near = std::rc::Rc::new(near);
        let echo = spawn(async move {
            let mut room = [0; 1000];
            loop {
                match far.read(&mut room).await.expect("read") {
                    0 => break,
                    n => far.write_all(&room[..n]).await.expect("write"),
                }
            }
        });
        let reader = near.clone();
        let reader = spawn(async move {
            let mut sum = 0;
            let mut room = [0; 777];
            while sum < 4_000_000 {
                sum += reader.read(&mut room).await.expect("read");
            }
        });
        for _ in 0..4000 {
            near.write_all(&[7; 1000]).await.expect("write");
        }
        reader.await;
        near.shutdown(std::net::Shutdown::Write).expect("shutdown");
        echo.await;
    });
}

/// A stream outlives the loop in which it was first waited for, and wakes who waits for it in another.
#[test]
fn a_stream_outlives_its_loop() {
    let (near, far) = run(async {
        let (near, far) = pair().await;
        warm(&near, &far).await;
        (near, far)
    });
    let reader = thread::spawn(move || {
        run(async {
            let mut room = [0; 5];
            far.read_exact(&mut room).await.expect("read");
            room
        })
    });
    thread::sleep(Duration::from_millis(50));
    run(async { near.write_all(b"later").await.expect("write") });
    assert_eq!(&reader.join().expect("the reader"), b"later");
}

/// A task that is always ready does not keep others from what has come.
#[test]
fn a_busy_task_does_not_starve_others() {
    run(async {
        let (near, far) = pair().await;
        let reader = spawn(async move {
            let mut room = [0; 4];
            far.read_exact(&mut room).await.expect("read");
        });
        let done = std::rc::Rc::new(std::cell::Cell::new(false));
        let seen = done.clone();
        let busy = spawn(std::future::poll_fn(move |task| match seen.get() {
            true => Poll::Ready(()),
            false => {
                task.waker().wake_by_ref();
                Poll::Pending
            }
        }));
        near.write_all(b"busy").await.expect("write");
        reader.await;
        done.set(true);
        busy.await;
    });
}

/// Any thread may wake a task of a loop that waits.
#[test]
fn a_waker_of_another_thread() {
    let begin = Instant::now();
    run(async {
        let mut told = false;
        std::future::poll_fn(|task| {
            if std::mem::replace(&mut told, true) {
                return Poll::Ready(());
            }
            let waker = task.waker().clone();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(50));
                waker.wake();
            });
            Poll::Pending
        })
        .await;
    });
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn room_and_view() {
    run(async {
        let (mut near, mut far) = pair().await;
        warm(&near, &far).await;
        let mut in_ring = 0;
        for round in 0..1000_usize {
            let message = vec![round as u8; 100 + round];
            let mut room = near.reserve(message.len());
            in_ring += usize::from(room.is_in_ring());
            let beyond = room.write_at(message.len() - 1, b"ab");
            let end = message.len() + 1;
            assert_eq!(beyond, Err(OutOfRange { end, len: end - 1 }));
            room.write_all(&message).expect("room");
            room.commit(message.len()).await.expect("commit");
            let mut done = 0;
            while done < message.len() {
                let view = far.peek_in_place().await.expect("bytes");
                let mut copy = vec![0; view.len()];
                view.read_at(0, &mut copy).expect("all");
                assert!(copy.iter().all(|byte| *byte == round as u8));
                done += view.len();
                let all = view.len();
                view.consume(all).expect("consume");
            }
        }
        assert!(in_ring > 900, "{in_ring} of 1000 in the ring");
        let room = near.reserve(10);
        let refused = room.commit(11).await;
        assert!(matches!(refused, Err(InPlaceError::OutOfRange(_))));
        drop(near);
        assert!(far.peek_in_place().await.expect("the end").is_empty());
    });
}

/// With a program that knows nothing of ulsock at the other end.
#[test]
fn an_ordinary_peer() {
    begin();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let address: SocketAddr = listener.local_addr().expect("an address");
    let peer = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accept");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("read");
        stream.write_all(&all).expect("write");
    });
    run(async {
        let mut stream = TcpStream::connect(address).await.expect("connect");
        let message = vec![9; 100_000];
        let mut room = stream.reserve(message.len());
        assert!(!room.is_in_ring());
        room.write_all(&message).expect("room");
        room.commit(message.len()).await.expect("commit");
        stream
            .shutdown(std::net::Shutdown::Write)
            .expect("shutdown");
        let mut seen = 0;
        loop {
            let view = stream.peek_in_place().await.expect("bytes");
            let n = view.len();
            if n == 0 {
                break;
            }
            view.consume(n.div_ceil(2)).expect("consume");
            seen += n.div_ceil(2);
        }
        assert_eq!(seen, message.len());
    });
    peer.join().expect("the peer");
}

#[test]
fn nobody_listens() {
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        listener.local_addr().expect("an address")
    };
    let refused = run(TcpStream::connect(address)).map(drop);
    let kind = refused.map_err(|error| error.kind());
    assert_eq!(kind, Err(ErrorKind::ConnectionRefused));
}
