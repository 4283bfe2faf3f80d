//! `chaos run seconds=N seed=S [verbose=true]`: programs on ulsock that are killed, stopped and steered at random, and
//! check every byte; `tests/chaos` starts it. The other roles are those programs: see `tests::chaos`.

use std::path::Path;
use std::process::ExitCode;

use tests::args::Args;
use tests::chaos::board::Board;
use tests::chaos::{master, serve, visit};

fn main() -> ExitCode {
    let args = Args::from_env();
    let board = || Board::open(Path::new(&args.get::<String>("board")));
    match args.role() {
        "serve" => serve::run(&args, board()),
        "finish" => serve::finish(&args, board()),
        "visit" => visit::run(&args, board()),
        _ => return chaos(&args),
    }
    ExitCode::SUCCESS
}

fn chaos(args: &Args) -> ExitCode {
    let (seconds, seed) = (args.get_or("seconds", 120), args.get_or("seed", 1));
    let verbose = args.get_or("verbose", false);
    println!("chaos: {seconds} s, seed {seed}");
    match master::run(seconds, seed, verbose) {
        Ok(summary) => {
            println!("{summary}\nchaos: every byte accounted for");
            ExitCode::SUCCESS
        }
        Err(why) => {
            println!("chaos: seed {seed}: {why}");
            ExitCode::FAILURE
        }
    }
}
