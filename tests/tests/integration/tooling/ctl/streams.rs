//! Orders in the middle of streams whose every byte is checked.

use tests::ends::{Ends, Side, kernel_only};
use tests::place::{Place, Rings};
use tests::ports;
use tests::program::Running;
use tests::rng::Rng;

use super::{read, run};

/// Each way on each of two connections.
const BYTES: u64 = 200_000_000;
/// So often all connections have to be seen on the kernel, and on rings.
const FOLLOWED: usize = 4;
/// Programs that are fast end before there have been so many orders: others begin.
const MOST_RUNS: u64 = 20;

/// Orders until a program has ended, and how often all its connections were seen on the kernel, and on rings.
#[derive(Default)]
struct Orders {
    given: usize,
    followed: [usize; 2],
}

impl Orders {
    fn are_enough(&self) -> bool {
        self.followed.iter().all(|it| *it >= FOLLOWED)
    }

    fn until_end(&mut self, place: &Place, filters: &[String], ended: &mut Running) {
        let mut rng = Rng::new(self.given as u64, 0);
        while !ended.has_ended() {
            // Mostly in turn, to more or fewer of the ends.
            let way = (self.given + usize::from(rng.below(5) == 0)) % 2;
            self.given += 1;
            let (order, filter) = (
                ["demote", "promote"][way],
                &filters[rng.below(filters.len())],
            );
            let (status, text) = run(place, &format!("{order} --json {filter}"));
            // Before the first connection, and after the last, there is nobody to order.
            if status != Some(0) {
                assert!(text.contains("is meant"), "{text}");
                continue;
            }
            let answer = read(&text);
            let all = answer.connections > 0 && answer.followed == answer.connections;
            self.followed[way] += usize::from(all);
        }
    }
}

fn stream(mode: &str, seed: u64) {
    if kernel_only() {
        return;
    }
    let mut orders = Orders::default();
    for run in 0..MOST_RUNS {
        once(mode, seed + run, &mut orders);
        if orders.are_enough() {
            return;
        }
    }
    panic!("{:?} of {}", orders.followed, orders.given);
}

fn once(mode: &str, seed: u64, orders: &mut Orders) {
    let place = Place::new(Ends::Both).eager();
    let port = ports::free();
    let arguments = format!("port={port} mode={mode} seed={seed} bytes={BYTES} conns=2 late=true");
    let start = |side, role| {
        let program = place.own(side, "stress").args(role);
        program.args(&arguments).start()
    };
    let server = start(Side::Server, "listen").listening(port);
    let mut client = start(Side::Client, "connect");
    let filters = [
        format!("--port {port}"),
        format!("--pid {}", server.pid()),
        "--program stress".to_owned(),
    ];
    orders.until_end(&place, &filters, &mut client);
    for program in [client, server] {
        let output = program.succeed();
        assert!(output.contains("all bytes in their places"), "{output}");
    }
    place.check(Rings::Some);
}

macro_rules! modes {
    ($($mode:ident)*) => {
        $(
            #[test]
            fn $mode() {
                stream(stringify!($mode), 11);
            }
        )*
    };
}

modes! { blocking turns records readers poll epoll edge oneshot }

/// A real server with its real client.
#[test]
fn redis() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::Both);
    let port = ports::free();
    let server = place.server("redis-server");
    let server = server
        .args(&format!("--port {port} --dir"))
        .arg(place.folder());
    let server = server.args("--save").arg("").start().listening(port);
    let benchmark = place.client("redis-benchmark");
    let options = format!("-p {port} -q -n 400000 -c 8 -t set,get,lrange_100");
    let mut benchmark = benchmark.args(&options).start();
    let filters = [
        format!("--port {port}"),
        "--program redis-server".to_owned(),
        "--program redis-benchmar".to_owned(),
    ];
    let mut orders = Orders::default();
    orders.until_end(&place, &filters, &mut benchmark);
    let output = benchmark.succeed();
    assert!(
        output.contains("GET") && output.contains("LRANGE"),
        "{output}"
    );
    assert!(orders.are_enough(), "{:?}", orders.followed);
    let cli = place.client("redis-cli");
    cli.args(&format!("-p {port} shutdown nosave")).run();
    server.succeed();
    place.check(Rings::Some);
}
