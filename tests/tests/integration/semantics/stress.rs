//! Random pieces both ways, every byte checked, while the carriers switch at random moments; 11 GB in
//! all. See `src/bin/stress` for the modes.

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::ports;

/// Carriers switch at random on so many of 1000 calls.
const CHAOS: [u32; 4] = [0, 5, 50, 200];
const CONNECTIONS: u64 = 2;
/// Each way on each connection: 320 MB per run.
const BYTES: u64 = 80_000_000;

/// One run; gives nothing back, every failure is a panic.
fn run(ends: Ends, mode: &str, chaos: u32, host: &str) {
    let mut place = Place::new(ends);
    if chaos > 0 {
        place = place.with("ULSOCK_CHAOS", chaos);
    }
    let port = ports::free();
    let seed = u64::from(chaos) + 1;
    // Where rings must carry most, nobody half-closes in the middle.
    let late = chaos == 0;
    let arguments = format!(
        "host={host} port={port} mode={mode} seed={seed} bytes={BYTES} conns={CONNECTIONS} late={late}"
    );
    let start = |side, role| {
        place
            .own(side, "stress")
            .args(role)
            .args(&arguments)
            .start()
    };
    let server = start(Side::Server, "listen").listening(port);
    let client = start(Side::Client, "connect");
    for program in [client, server] {
        let output = program.succeed();
        assert!(output.contains("all bytes in their places"), "{output}");
    }
    place.check(if chaos == 0 { Rings::Most } else { Rings::Some });
}

fn with_chaos(mode: &str) {
    for chaos in CHAOS {
        run(Ends::both(), mode, chaos, "127.0.0.1");
    }
}

macro_rules! modes {
    ($($mode:ident)*) => {
        $(
            #[test]
            fn $mode() {
                with_chaos(stringify!($mode));
            }
        )*
    };
}

modes! { blocking turns records readers poll select epoll edge oneshot }

#[test]
fn over_ipv6() {
    run(Ends::both(), "blocking", 50, "::1");
}

#[test]
fn with_one_end() {
    for &ends in Ends::all().iter().filter(|&&ends| ends != Ends::Both) {
        for mode in ["turns", "edge"] {
            run(ends, mode, 0, "127.0.0.1");
        }
    }
}
