//! A child of fork goes on with its parent's connection, then the parent does; room that was out at the fork is the
//! parent's alone; and the child has connections of its own, also by tasks.

use std::io::{Read, Write};
use std::process::exit;

use native::{InPlaceError, TcpStream, run};

use crate::Order;
use crate::blocking::call;

pub fn run(order: &Order) {
    let mut stream = TcpStream::connect(order.address).expect("connect");
    stream.set_nodelay(true).expect("TCP_NODELAY");
    call(&mut stream, order, 1).expect("round trips before the fork");
    let mut room = stream.reserve(8);
    room.write_all(b"parent's").expect("room for eight");
    // SAFETY: this thread is the only one, and the child uses nothing that a lock protects.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = matches!(room.commit(8), Err(InPlaceError::Forked));
        assert!(refused, "a child has no part in its parent's room");
        talk_as_child(stream, order);
        exit(0);
    }
    let mut status = 0;
    // SAFETY: the status lives as long as the call.
    let ended = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!((ended, status), (child, 0), "the child is content");
    match room.commit(8) {
        Ok(()) => {
            let mut answer = [0; 8];
            stream.read_exact(&mut answer).expect("the echo");
            assert_eq!(&answer, b"parent's");
        }
        Err(InPlaceError::Overtaken) => {}
        Err(error) => panic!("{error}"),
    }
    call(&mut stream, order, 2).expect("round trips after the child's");
    println!("ok");
}

fn talk_as_child(mut stream: TcpStream, order: &Order) {
    call(&mut stream, order, 3).expect("round trips of the child");
    let mut own = TcpStream::connect(order.address).expect("connect");
    call(&mut own, order, 4).expect("round trips on its own connection");
    let task = async {
        let stream = native::future::TcpStream::connect(order.address).await?;
        stream.write_all(b"by a task").await?;
        let mut answer = [0; 9];
        stream.read_exact(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = run::block_on(task).expect("a loop").expect("an answer");
    assert_eq!(&answer, b"by a task");
}
