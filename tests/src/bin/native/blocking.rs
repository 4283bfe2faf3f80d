//! With calls that wait: one thread for each connection, two if bytes go both ways at once.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

use native::{TcpListener, TcpStream};
use tests::pattern;
use tests::rng::Rng;

use crate::{Order, PIECE, print_end};

/// Messages that a ring of the smallest size holds.
pub const AT_ONCE: usize = 100;

fn alone(order: &Order) -> io::Result<()> {
    let listener = TcpListener::bind(order.address)?;
    let mut near = TcpStream::connect(order.address)?;
    let (mut far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    let mut message = [7; 64];
    for _ in 0..order.rounds {
        for _ in 0..AT_ONCE {
            send(&mut near, &message, order.in_place)?;
        }
        for _ in 0..AT_ONCE {
            let mut got = 0;
            while got < message.len() {
                got += match order.in_place {
                    true => take_in_place(&mut far, &mut message[got..])?,
                    false => far.read(&mut message[got..])?,
                };
            }
        }
    }
    Ok(())
}

pub fn run(order: &Order) {
    if order.role == "alone" {
        return alone(order).expect("a connection that works");
    }
    let listener = match order.role.as_str() {
        "serve" => Some(TcpListener::bind(order.address).expect("bind")),
        _ => None,
    };
    thread::scope(|scope| {
        for number in 0..order.conns {
            let stream = match &listener {
                Some(listener) => listener.accept().expect("accept").0,
                None => TcpStream::connect(order.address).expect("connect"),
            };
            scope.spawn(move || one(order, stream, number as u8).expect("a connection that works"));
        }
    });
}

fn one(order: &Order, mut stream: TcpStream, direction: u8) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match order.role.as_str() {
        "serve" => serve(&mut stream, order.in_place),
        "call" => {
            call(&mut stream, order, direction)?;
            end(&stream)
        }
        "flood" => flood(&stream, order.rounds as u64, direction),
        "wait" => {
            call(&mut stream, order, direction)?;
            println!("waits");
            print_end((&stream).read(&mut [0; 100]));
            Ok(())
        }
        "reset" => {
            call(&mut stream, order, direction)?;
            stream.set_linger(Some(Duration::ZERO))
        }
        other => panic!("role {other}"),
    }
}

/// Sends everything back, at once.
fn serve(stream: &mut TcpStream, in_place: bool) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        let n = match in_place {
            true => take_in_place(stream, &mut buffer)?,
            false => stream.read(&mut buffer)?,
        };
        if n == 0 {
            return stream.shutdown(Shutdown::Write);
        }
        send(stream, &buffer[..n], in_place)?;
    }
}

/// What has come, looked at where it is, in pieces that do not match.
fn take_in_place(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let view = stream.peek_in_place()?;
    let n = view.len().min(buffer.len());
    for (number, part) in buffer[..n].chunks_mut(1000).enumerate() {
        view.read_at(number * 1000, part)
            .expect("it is in the view");
    }
    view.consume(n)?;
    Ok(n)
}

fn send(stream: &mut TcpStream, bytes: &[u8], in_place: bool) -> io::Result<()> {
    if !in_place {
        return stream.write_all(bytes);
    }
    let mut room = stream.reserve(bytes.len() + 10);
    for part in bytes.chunks(777) {
        room.write_all(part)?;
    }
    let n = room.filled();
    Ok(room.commit(n)?)
}

/// Round trips of random lengths.
pub fn call(stream: &mut TcpStream, order: &Order, direction: u8) -> io::Result<()> {
    let (mut rng, mut position, mut done) = (Rng::new(1, direction.into()), 0, 0);
    while order.wants_round(done) {
        done += 1;
        let mut message = vec![0; rng.size(order.max)];
        pattern::fill(direction, position, &mut message);
        send(stream, &message, order.in_place)?;
        message.fill(0);
        let mut got = 0;
        while got < message.len() {
            let room = &mut message[got..];
            let n = match order.in_place {
                true => take_in_place(stream, room)?,
                false => stream.read(room)?,
            };
            assert!(n > 0, "the echo ends early");
            got += n;
        }
        check(direction, position, &message);
        position += message.len() as u64;
    }
    Ok(())
}

/// The other end may still send when this one has ended its direction.
fn end(stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    assert_eq!((&*stream).read(&mut [0; 100])?, 0, "nothing but the end");
    Ok(())
}

fn flood(stream: &TcpStream, total: u64, direction: u8) -> io::Result<()> {
    thread::scope(|scope| {
        let sender = scope.spawn(move || send_all(stream, total, direction));
        let (mut position, mut buffer, mut reader) = (0, vec![0; PIECE], stream);
        loop {
            let n = reader.read(&mut buffer)?;
            if n == 0 {
                break;
            }
            check(direction, position, &buffer[..n]);
            position += n as u64;
        }
        assert_eq!(position, total);
        sender.join().expect("the sender")
    })
}

fn send_all(mut stream: &TcpStream, total: u64, direction: u8) -> io::Result<()> {
    let (mut rng, mut position) = (Rng::new(2, direction.into()), 0);
    while position < total {
        let most = (total - position).min(PIECE as u64) as usize;
        let mut piece = vec![0; rng.size(PIECE).min(most)];
        pattern::fill(direction, position, &mut piece);
        stream.write_all(&piece)?;
        position += piece.len() as u64;
    }
    stream.shutdown(Shutdown::Write)
}

pub fn check(direction: u8, position: u64, found: &[u8]) {
    pattern::check(direction, position, found).unwrap_or_else(|wrong| panic!("echo: {wrong}"));
}
