//! CPython's own test modules: under ulsock, with every connection upgraded at once, each test has the
//! outcome that it has on kernel TCP. `TESTS_CPYTHON='MODULE...' tests/run pysuite` runs others
//! than those listed here, for example test_asyncio.test_subprocess or test_multiprocessing_fork,
//! and `TESTS_CPYTHON_CHAOS=N` changes carriers at random meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tests::cpython::{difference, on_kernel, run};
use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};

/// The longest first: they run side by side. With each, how much of its traffic must be on rings.
const MODULES: &[(&str, Rings)] = &[
    ("test_ssl", Rings::Most),
    ("test_socket", Rings::Most),
    ("test_xmlrpc", Rings::Most),
    ("test_imaplib", Rings::Most),
    // Unix sockets and pipes.
    ("test_selectors", Rings::Any),
    ("test_poll", Rings::Any),
    // Nearly all that it talks to are stand-ins in Python.
    ("test_asyncio.test_unix_events", Rings::Any),
    ("test_asyncio.test_streams", Rings::Any),
    ("test_ftplib", Rings::Most),
    ("test_poplib", Rings::Most),
    ("test_asyncore", Rings::Most),
    ("test_asynchat", Rings::Most),
    ("test_urllib2_localnet", Rings::Most),
    ("test_httplib", Rings::Most),
    ("test_httpservers", Rings::Most),
    ("test_docxmlrpc", Rings::Most),
    // Pipes.
    ("test_select", Rings::Any),
    ("test_socketserver", Rings::Most),
    ("test_smtplib", Rings::Most),
    ("test_epoll", Rings::Most),
    // Its connections carry no bytes.
    ("test_telnetlib", Rings::Any),
];

/// Runs at a time. They sleep more than they compute.
const BESIDE: usize = 4;
/// Runs on kernel TCP that are asked for an outcome before it counts as ulsock's own.
const WITNESSES: usize = 3;

/// The modules to run: those of the environment, or all of the above.
fn modules() -> Vec<(String, Rings)> {
    match std::env::var("TESTS_CPYTHON") {
        Ok(names) => names
            .split_whitespace()
            .map(|name| (name.to_owned(), Rings::Any))
            .collect(),
        Err(_) => MODULES
            .iter()
            .map(|(name, rings)| ((*name).to_owned(), *rings))
            .collect(),
    }
}

fn place() -> Place {
    let place = Place::new(Ends::both()).at_once();
    match std::env::var("TESTS_CPYTHON_CHAOS") {
        Ok(chaos) => place.with("ULSOCK_CHAOS", chaos),
        Err(_) => place,
    }
}

/// Both ways, test by test. Some tests depend on time, and fail now and then on a busy machine: an
/// outcome that the kernel shows too, in one of a few runs, is the kernel's.
fn compare(module: &str, rings: Rings) {
    let place = place();
    let ours = run(&place, module);
    check_rings(&place, module, rings);
    let mut strange = Vec::new();
    for witness in 1..=WITNESSES {
        let theirs = on_kernel(module);
        strange = difference(&theirs, &ours);
        if strange.is_empty() {
            return;
        }
        eprintln!("{module}, run {witness} on the kernel: differs in {strange:?}");
    }
    panic!("{module}: other outcomes than on kernel TCP: {strange:#?}");
}

/// A fall-back to kernel TCP must not pass for parity.
fn check_rings(place: &Place, module: &str, rings: Rings) {
    place.check_quiet();
    let (report, lines) = place.report(Side::Client);
    println!("{module}: {lines} reports, {report:?}");
    if place.ends() == Ends::Kernel || rings == Rings::Any {
        return;
    }
    assert!(
        report.upgraded > 0 && report.ring_bytes() > report.kernel_bytes(),
        "{module}: {rings:?} of the traffic through rings: {report:?}"
    );
}

#[test]
fn same_outcomes() {
    let modules = modules();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..BESIDE {
            scope.spawn(|| {
                while let Some((module, rings)) = modules.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    compare(module, *rings);
                }
            });
        }
    });
}
