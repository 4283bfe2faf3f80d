//! Very many connections at once from one process: `many port=P conns=N rounds=R`. Prints their number
//! (fewer than N if the machine allows fewer fds), shows that new mappings can still be made, and holds
//! the connections until its stdin ends. The server must listen on 0.0.0.0.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use tests::args::Args;
use tests::sock;

const ADDRESSES: usize = 8;
const SPARE_FDS: usize = 500;
const BLOCKS: usize = 100;
/// Above malloc's mmap threshold: each block is a mapping of its own.
const BLOCK: usize = 40 << 20;

fn main() {
    let args = Args::from_env();
    let (port, wish): (u16, usize) = (args.get("port"), args.get("conns"));
    let allowed = sock::allow_fds((wish + SPARE_FDS) as u64).expect("fd limit");
    let number = allowed as usize - SPARE_FDS;
    let streams: Vec<TcpStream> = (0..number)
        .map(|turn| {
            let address = Ipv4Addr::new(127, 0, 0, 1 + (turn % ADDRESSES) as u8);
            TcpStream::connect((address, port)).expect("connect")
        })
        .collect();
    for round in 0..args.get::<usize>("rounds") {
        for (turn, stream) in streams.iter().enumerate() {
            round_trip(stream, turn, round);
        }
    }
    println!("connections {number}");
    let blocks: Vec<Vec<u8>> = (0..BLOCKS).map(|_| Vec::with_capacity(BLOCK)).collect();
    println!("{} blocks allocated", blocks.len());
    std::io::stdin()
        .read_to_end(&mut Vec::new())
        .expect("stdin");
}

fn round_trip(mut stream: &TcpStream, turn: usize, round: usize) {
    let sent = [turn.to_le_bytes(), round.to_le_bytes()].concat();
    let mut received = [0; 16];
    stream.write_all(&sent).expect("send");
    stream.read_exact(&mut received).expect("receive");
    assert_eq!(sent, received, "connection {turn}, round {round}");
}
