//! The source and the sink of the pipe tests: `pattern emit bytes=N` writes the pattern to stdout,
//! `pattern check bytes=N` demands exactly these bytes on stdin.

use std::io::{Read, Write};

use tests::args::Args;
use tests::pattern;

const CHUNK: usize = 64 * 1024;

fn main() {
    let args = Args::from_env();
    let total = args.get("bytes");
    match args.role() {
        "emit" => emit(total),
        "check" => check(total),
        other => panic!("emit or check, not {other:?}"),
    }
}

fn emit(total: u64) {
    let mut out = std::io::stdout().lock();
    let mut chunk = [0; CHUNK];
    let mut position = 0;
    while position < total {
        let length = CHUNK.min((total - position) as usize);
        pattern::fill(1, position, &mut chunk[..length]);
        out.write_all(&chunk[..length]).expect("write");
        position += length as u64;
    }
}

fn check(total: u64) {
    let mut input = std::io::stdin().lock();
    let mut chunk = [0; CHUNK];
    let mut position = 0;
    loop {
        let length = input.read(&mut chunk).expect("read");
        if length == 0 {
            break;
        }
        pattern::check(1, position, &chunk[..length]).unwrap_or_else(|wrong| panic!("{wrong}"));
        position += length as u64;
    }
    assert_eq!(position, total, "bytes received");
    println!("{total} bytes, all in their places");
}
