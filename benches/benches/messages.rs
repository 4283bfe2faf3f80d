//! Messages and requests of native programs: what one costs with both ends in one thread, so that nobody waits, and round
//! trips to another thread.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use native::message::{Endpoint, Incoming, MessageError, Peer};
use native::request::{Caller, Requests};
use native::run::{Loop, block_on};

const TAKE: u16 = 1;
const ECHO: u16 = 2;
const END: u16 = 3;
const SIZES: [usize; 4] = [64, 256, 1024, 4096];
/// Messages that are sent before any is extracted: less than what a peer may have under way at first.
const BATCH: u64 = 16;
/// Enough for a connection to have moved to its ring.
const AHEAD: u64 = 1000;

fn main() {
    let mut criterion = Criterion::default()
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(300))
        .configure_from_args();
    one_thread(&mut criterion);
    two_threads(&mut criterion);
    criterion.final_summary();
}

/// Runs `work` so often, in a loop that is kept, and tells how long it took.
fn timed(
    run: &mut Loop,
    rounds: u64,
    work: impl AsyncFn() -> Result<(), MessageError>,
) -> Duration {
    let begun = Instant::now();
    run.block_on(async {
        for _ in 0..rounds {
            work().await.expect("the peer is there");
        }
    });
    begun.elapsed()
}

fn one_thread(criterion: &mut Criterion) {
    let (mut run, near) = (Loop::new().expect("a loop"), Endpoint::new());
    let far = Endpoint::bind("127.0.0.1:0").expect("an endpoint");
    let taken = Rc::new(Cell::new(0_u64));
    let count = taken.clone();
    far.handle(TAKE, move |mut message: Incoming| {
        let count = count.clone();
        async move {
            let mut room = [0; 4096];
            message.read_up_to(&mut room).await?;
            count.set(count.get() + 1);
            Ok(())
        }
    });
    let peer = connect(&mut run, &near, far.local_addr());
    let mut group = criterion.benchmark_group("message, both ends in one thread");
    for size in SIZES {
        let bytes = vec![0x5a; size];
        let batch = async || {
            let wanted = taken.get() + BATCH;
            for _ in 0..BATCH {
                peer.send(TAKE, &bytes).await?;
            }
            while taken.get() < wanted {
                far.extract(usize::MAX).await?;
            }
            near.extract_now(usize::MAX).map(drop)
        };
        timed(&mut run, AHEAD, batch);
        group.throughput(Throughput::ElementsAndBytes {
            elements: BATCH,
            bytes: BATCH * size as u64,
        });
        group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
            bencher.iter_custom(|rounds| timed(&mut run, rounds, batch));
        });
    }
    group.finish();
}

fn connect(run: &mut Loop, near: &Endpoint, to: Option<SocketAddr>) -> Peer {
    let to = to.expect("an address");
    let connected = run.block_on(near.connect(to));
    connected.expect("a connection")
}

fn two_threads(criterion: &mut Criterion) {
    let (tell, hear) = channel();
    let server = thread::spawn(move || block_on(serve(|at| tell.send(at).expect("heard"))));
    let address = hear.recv().expect("an address");
    let mut run = Loop::new().expect("a loop");
    let requests = Requests::new(&Rc::new(Endpoint::new())).expect("requests");
    let caller = run.block_on(requests.connect(address)).expect("a caller");
    let call = async || {
        let done = requests.while_served(caller.call(ECHO, &[0x5a; 64])).await;
        done.map(drop).map_err(|_| MessageError::PeerGone)
    };
    timed(&mut run, AHEAD, call);
    criterion.bench_function("request of 64 B to another thread", |bencher| {
        bencher.iter_custom(|rounds| timed(&mut run, rounds, call));
    });
    run.block_on(end(&requests, &caller));
    server.join().expect("it ends").expect("a loop");
}

async fn serve(tell: impl FnOnce(SocketAddr)) {
    let endpoint = Rc::new(Endpoint::bind("127.0.0.1:0").expect("an endpoint"));
    let requests = Requests::new(&endpoint).expect("requests");
    let over = Rc::new(Cell::new(false));
    let told = over.clone();
    requests.answer(ECHO, |bytes: Vec<u8>| async move { Ok(bytes) });
    requests.answer(END, move |bytes: Vec<u8>| {
        told.set(true);
        async move { Ok(bytes) }
    });
    tell(endpoint.local_addr().expect("an address"));
    while !over.get() {
        endpoint.extract(usize::MAX).await.expect("it serves");
    }
}

/// The reply may be lost with the server.
async fn end(requests: &Requests, caller: &Caller) {
    let _ = requests.while_served(caller.call(END, b"")).await;
}
