//! With futures: all connections are tasks of one thread.

use std::io::{self, Write};
use std::net::Shutdown;
use std::rc::Rc;
use std::time::Duration;

use native::future::{TcpListener, TcpStream};
use native::run::{block_on, spawn};
use tests::pattern;
use tests::rng::Rng;

use crate::blocking::{AT_ONCE, check};
use crate::{Order, PIECE, print_end};

pub fn run(order: &Order) {
    block_on(all(order.clone())).expect("a run loop");
}

async fn alone(order: &Order) -> io::Result<()> {
    let listener = TcpListener::bind(order.address)?;
    let mut near = TcpStream::connect(order.address).await?;
    let (mut far, _) = listener.accept().await?;
    near.set_nodelay(true)?;
    let mut message = [7; 64];
    for _ in 0..order.rounds {
        for _ in 0..AT_ONCE {
            send(&mut near, &message, order.in_place).await?;
        }
        for _ in 0..AT_ONCE {
            let mut got = 0;
            while got < message.len() {
                got += take(&mut far, &mut message[got..], order.in_place).await?;
            }
        }
    }
    Ok(())
}

async fn all(order: Order) {
    if order.role == "alone" {
        return alone(&order).await.expect("a connection that works");
    }
    let listener = match order.role.as_str() {
        "serve" => Some(TcpListener::bind(order.address).expect("bind")),
        _ => None,
    };
    let order = Rc::new(order);
    let mut tasks = Vec::new();
    for number in 0..order.conns {
        let stream = match &listener {
            Some(listener) => listener.accept().await.expect("accept").0,
            None => TcpStream::connect(order.address).await.expect("connect"),
        };
        tasks.push(spawn(one(order.clone(), stream, number as u8)));
    }
    for task in tasks {
        task.await.expect("a connection that works");
    }
}

async fn one(order: Rc<Order>, mut stream: TcpStream, direction: u8) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match order.role.as_str() {
        "serve" => serve(stream, order.in_place).await,
        "call" => {
            call(&mut stream, &order, direction).await?;
            stream.shutdown(Shutdown::Write)?;
            assert_eq!(stream.read(&mut [0; 100]).await?, 0, "nothing but the end");
            Ok(())
        }
        "flood" => flood(stream, order.rounds as u64, direction).await,
        "wait" => {
            call(&mut stream, &order, direction).await?;
            println!("waits");
            print_end(stream.read(&mut [0; 100]).await);
            Ok(())
        }
        "reset" => {
            call(&mut stream, &order, direction).await?;
            stream.set_linger(Some(Duration::ZERO))
        }
        other => panic!("role {other}"),
    }
}

async fn serve(mut stream: TcpStream, in_place: bool) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        let n = take(&mut stream, &mut buffer, in_place).await?;
        if n == 0 {
            return stream.shutdown(Shutdown::Write);
        }
        send(&mut stream, &buffer[..n], in_place).await?;
    }
}

async fn take(stream: &mut TcpStream, buffer: &mut [u8], in_place: bool) -> io::Result<usize> {
    if !in_place {
        return stream.read(buffer).await;
    }
    let view = stream.peek_in_place().await?;
    let n = view.len().min(buffer.len());
    for (number, part) in buffer[..n].chunks_mut(1000).enumerate() {
        view.read_at(number * 1000, part)
            .expect("it is in the view");
    }
    view.consume(n)?;
    Ok(n)
}

async fn send(stream: &mut TcpStream, bytes: &[u8], in_place: bool) -> io::Result<()> {
    if !in_place {
        return stream.write_all(bytes).await;
    }
    let mut room = stream.reserve(bytes.len() + 10);
    for part in bytes.chunks(777) {
        room.write_all(part)?;
    }
    let n = room.filled();
    Ok(room.commit(n).await?)
}

async fn call(stream: &mut TcpStream, order: &Order, direction: u8) -> io::Result<()> {
    let (mut rng, mut position, mut done) = (Rng::new(1, direction.into()), 0, 0);
    while order.wants_round(done) {
        done += 1;
        let mut message = vec![0; rng.size(order.max)];
        pattern::fill(direction, position, &mut message);
        send(stream, &message, order.in_place).await?;
        message.fill(0);
        let mut got = 0;
        while got < message.len() {
            let n = take(stream, &mut message[got..], order.in_place).await?;
            assert!(n > 0, "the echo ends early");
            got += n;
        }
        check(direction, position, &message);
        position += message.len() as u64;
    }
    Ok(())
}

async fn flood(stream: TcpStream, total: u64, direction: u8) -> io::Result<()> {
    let stream = Rc::new(stream);
    let sender = spawn(send_all(stream.clone(), total, direction));
    let (mut position, mut buffer) = (0, vec![0; PIECE]);
    loop {
        let n = stream.read(&mut buffer).await?;
        if n == 0 {
            break;
        }
        check(direction, position, &buffer[..n]);
        position += n as u64;
    }
    assert_eq!(position, total);
    sender.await
}

async fn send_all(stream: Rc<TcpStream>, total: u64, direction: u8) -> io::Result<()> {
    let (mut rng, mut position) = (Rng::new(2, direction.into()), 0);
    while position < total {
        let most = (total - position).min(PIECE as u64) as usize;
        let mut piece = vec![0; rng.size(PIECE).min(most)];
        pattern::fill(direction, position, &mut piece);
        stream.write_all(&piece).await?;
        position += piece.len() as u64;
    }
    stream.shutdown(Shutdown::Write)
}
