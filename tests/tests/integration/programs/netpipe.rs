//! NetPIPE over TCP and over OpenMPI's TCP transport: ping-pong of every size around the powers of
//! two, both ways at once, and its own integrity check. (Its one-way stream reconnects before the
//! receiver listens again.)

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::ports;

/// Options of both ends.
const CASES: &[&str] = &[
    "-u 1000000 -n 30",
    "-u 100000 -n 30 -2",
    "-u 100000 -n 30 -i",
];

#[test]
fn sizes() {
    for &ends in Ends::all() {
        for options in CASES {
            let place = Place::new(ends);
            let port = ports::free();
            let options = format!("{options} -P {port}");
            let receiver = place.server("NPtcp").args(&options);
            let receiver = receiver.directory(place.folder()).start().listening(port);
            let sender = place.client("NPtcp").args("-h 127.0.0.1").args(&options);
            let finished = sender.directory(place.folder()).start().wait();
            assert!(finished.status.success(), "{options}: {}", finished.status);
            let table = finished.errors;
            assert!(!table.contains("failed"), "{options}: {table}");
            assert!(
                table.contains("65537 bytes") || table.contains("65536 bytes"),
                "{table}"
            );
            receiver.succeed();
            place.check(Rings::Most);
        }
    }
}

/// mpirun starts both ranks; with one end, the other rank is started without the library.
#[test]
fn openmpi() {
    const TCP_ALONE: &str = "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo";
    for &ends in Ends::all() {
        // Not both ways at once: large messages that wait for each other are a deadlock of NetPIPE's.
        for options in CASES.iter().filter(|options| !options.contains("-2")) {
            let (side, other) = match ends {
                Ends::Client => (Side::Client, "env -u LD_PRELOAD"),
                Ends::Server => (Side::Server, "env -u LD_PRELOAD"),
                Ends::Both | Ends::Kernel => (Side::Server, "env"),
            };
            let place = Place::new(ends);
            let first = format!("NPopenmpi {options} -o {}/np.out", place.folder().display());
            let ranks = match side {
                Side::Server => format!("-np 1 {first} : -np 1 {other} {first}"),
                Side::Client => format!("-np 1 {other} {first} : -np 1 {first}"),
            };
            let mpirun = place.program(side, "mpirun");
            let mpirun = mpirun
                .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
                .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
                .directory(place.folder());
            let mpirun = mpirun.args(&format!("--oversubscribe {TCP_ALONE} {ranks}"));
            let finished = mpirun.start().wait();
            let table = finished.errors + &finished.output;
            assert!(finished.status.success(), "{options}: {table}");
            assert!(!table.contains("failed"), "{options}: {table}");
            let last = ["65537 bytes", "65536 bytes"];
            assert!(last.iter().any(|line| table.contains(line)), "{table}");
            place.check_quiet();
            let (report, _) = place.report(side);
            assert_eq!(
                report.ring_bytes() > report.kernel_bytes(),
                ends == Ends::Both,
                "{report:?}"
            );
        }
    }
}
