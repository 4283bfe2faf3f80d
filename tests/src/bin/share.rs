//! Two processes that share a connection as sshd's do: `share port=P turns=N message=BYTES
//! leave=child|parent|killed`. Parent and child both hold the fd and answer in turns; then one of
//! them leaves (the child exits, the parent closes, or the child dies of SIGKILL) and the other goes
//! on alone until EOF.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{TcpListener, TcpStream};

use tests::args::Args;
use tests::echo;
use tests::sock::{self, Forked};

/// By pipes, which are no sockets: it is the TCP connection alone that may go by rings.
struct Other {
    from: PipeReader,
    to: PipeWriter,
}

fn main() {
    let args = Args::from_env();
    let leave: String = args.get("leave");
    let listener = TcpListener::bind(args.address()).expect("bind");
    let (stream, _) = listener.accept().expect("accept");
    let (from_child, to_parent) = io::pipe().expect("pipe");
    let (from_parent, to_child) = io::pipe().expect("pipe");
    match sock::fork().expect("fork") {
        Forked::Parent(pid) => {
            drop((to_parent, from_parent));
            let child = Other {
                from: from_child,
                to: to_child,
            };
            parent(&args, stream, child, &leave);
            let status = sock::wait_child(pid).expect("wait");
            let expected = if leave == "killed" { libc::SIGKILL } else { 0 };
            assert_eq!(status, expected, "the child's wait status");
        }
        Forked::Child => {
            drop((to_child, from_child));
            let parent = Other {
                from: from_parent,
                to: to_parent,
            };
            child(&args, stream, parent, &leave);
            std::process::exit(0)
        }
    }
}

/// Answers first, then passes the turn.
fn parent(args: &Args, stream: TcpStream, mut other: Other, leave: &str) {
    for _ in 0..args.get::<usize>("turns") {
        answer(args, &stream);
        pass(&mut other);
        await_turn(&mut other);
    }
    if leave == "parent" {
        drop(stream);
        pass(&mut other);
    } else {
        assert_eq!(other.from.read(&mut [0]).expect("the child's end"), 0);
        echo::serve(&stream).expect("echo");
    }
}

/// Answers when it is its turn.
fn child(args: &Args, stream: TcpStream, mut other: Other, leave: &str) {
    for _ in 0..args.get::<usize>("turns") {
        await_turn(&mut other);
        answer(args, &stream);
        pass(&mut other);
    }
    match leave {
        "parent" => {
            await_turn(&mut other);
            echo::serve(&stream).expect("echo");
        }
        // SAFETY: ends this process at once.
        "killed" => unsafe {
            libc::kill(libc::getpid(), libc::SIGKILL);
        },
        _ => {}
    }
}

fn answer(args: &Args, stream: &TcpStream) {
    echo::serve_one(stream, args.get("message")).expect("answer");
}

fn pass(other: &mut Other) {
    other.to.write_all(b"x").expect("pass the turn");
}

fn await_turn(other: &mut Other) {
    other.from.read_exact(&mut [0]).expect("await the turn");
}
