//! A program with remote memory: `memory ROLE file=KEY [slots=N] [slot=S] [rounds=R] [port=P] [host=A]`.
//!
//! `export` exports a region of N slots, leaves its key in a file, and waits for writes until stdin ends; then it prints the last
//! round that each slot has seen. `write` writes rounds into one slot: a pattern into one of two halves in turn, then the
//! round's number; without R until stdin ends, or until it cannot. It prints how, and the last round. The exporter checks that a
//! number is never there before its pattern.

use std::fs;
use std::io::{self, Read};
use std::net::ToSocketAddrs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use native::memory::{EventQueue, Exporter, Fires, Import, MemoryError, Region, RegionKey};
use tests::args::Args;

/// A slot: the number of its round, and two halves.
const HALF: usize = 2000;
const SLOT: usize = 64 + 2 * HALF;

fn main() {
    let args = Args::from_env();
    let file: String = args.get_or("file", String::new());
    let done = match args.role() {
        "export" => export(&args, Path::new(&file)),
        _ => write(&args, Path::new(&file)),
    };
    if let Err(error) = done {
        println!("{error}");
    }
}

/// Whether stdin has ended.
fn told() -> Arc<AtomicBool> {
    let told = Arc::new(AtomicBool::new(false));
    let tell = told.clone();
    thread::spawn(move || {
        io::stdin().read_to_end(&mut Vec::new()).expect("stdin");
        tell.store(true, Ordering::Relaxed);
    });
    told
}

fn export(args: &Args, file: &Path) -> Result<(), MemoryError> {
    let slots = args.get_or("slots", 1_usize);
    let mut queue = EventQueue::new()?;
    let exporter = Exporter::bind(args.address())?;
    let region = exporter.export(slots * SLOT, &queue)?;
    let number = |slot: usize| slot * SLOT..slot * SLOT + 8;
    let wires = (0..slots).map(|slot| region.wire(number(slot), Fires::Always));
    let wires: Vec<_> = wires.collect::<Result<_, _>>()?;
    let new = file.with_extension("new");
    fs::write(&new, region.key().to_bytes()).expect("a file");
    fs::rename(&new, file).expect("a file");
    let (mut seen, told) = (vec![0; slots], told());
    loop {
        let ends = told.load(Ordering::Relaxed);
        match queue.wait_within(Duration::from_millis(20))? {
            Some(event) => {
                let slot = wires.iter().position(|wire| wire.id() == event.wire);
                let slot = slot.expect("a wire of ours");
                check(&region, slot, &mut seen[slot])?;
            }
            None if ends => break,
            None => {}
        }
    }
    seen.iter().for_each(|round| println!("{round}"));
    Ok(())
}

fn check(region: &Region, slot: usize, seen: &mut u64) -> Result<(), MemoryError> {
    let at = slot * SLOT;
    let round = region.load(at)?;
    let mut half = [0; HALF];
    region.read(at + 64 + (round % 2) as usize * HALF, &mut half)?;
    // Meanwhile the same half may be written for the round after the next.
    if region.load(at)? == round && !half.iter().all(|byte| *byte == round as u8) {
        let next = half
            .iter()
            .all(|byte| [round as u8, (round + 2) as u8].contains(byte));
        assert!(next, "round {round} of slot {slot}");
    }
    *seen = round;
    Ok(())
}

fn write(args: &Args, file: &Path) -> Result<(), MemoryError> {
    let key = RegionKey::from_bytes(&fs::read(file).expect("a key"))?;
    let mut address = args.address().to_socket_addrs().expect("an address");
    let key = key.at(address.next().expect("an address"));
    let import = Import::open_blocking(&key)?;
    println!(
        "{}",
        if import.is_shared() {
            "shared"
        } else {
            "messages"
        }
    );
    let (rounds, told) = (args.get_or("rounds", u64::MAX), told());
    let at = args.get_or("slot", 0_usize) * SLOT;
    let mut round = 0;
    while round < rounds && (rounds < u64::MAX || !told.load(Ordering::Relaxed)) {
        round += 1;
        let half = [round as u8; HALF];
        import.write_blocking(at + 64 + (round % 2) as usize * HALF, &half)?;
        import.write_blocking(at, &round.to_ne_bytes())?;
        if round % 64 == 0 {
            thread::sleep(Duration::from_micros(50));
        }
    }
    import.flush_blocking()?;
    println!("{round}");
    Ok(())
}
