//! Streams of ulsock under tokio: an echo server, and clients that check the echo.
//!
//!     cargo run --release -p ulsock_native --example tokio

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;
use ulsock_native::future::{TcpListener, TcpStream};

const CLIENTS: usize = 8;
const ROUNDS: usize = 200;

async fn echo(stream: TcpStream) -> io::Result<()> {
    let (mut from, mut to) = tokio::io::split(stream);
    tokio::io::copy(&mut from, &mut to).await?;
    to.shutdown().await
}

async fn call(address: SocketAddr, number: usize) -> io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    for round in 0..ROUNDS {
        let message = format!("message {round} of client {number}");
        AsyncWriteExt::write_all(&mut stream, message.as_bytes()).await?;
        let mut answer = vec![0; message.len()];
        AsyncReadExt::read_exact(&mut stream, &mut answer).await?;
        assert_eq!(answer, message.as_bytes());
    }
    Ok(())
}

async fn talk() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(call(address, number)))
        .collect();
    let mut servers = Vec::new();
    for _ in 0..CLIENTS {
        servers.push(tokio::spawn(echo(listener.accept().await?.0)));
    }
    for task in clients.into_iter().chain(servers) {
        task.await.expect("a task that does not panic")?;
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(2).build()?;
    runtime.block_on(talk())?;
    println!("{} echoes", CLIENTS * ROUNDS);
    Ok(())
}
