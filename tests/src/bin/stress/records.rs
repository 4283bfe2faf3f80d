//! Several threads inside send at once. Nobody knows which goes first, so each sends records that
//! describe themselves; a record must arrive whole, and those of one thread in order.
//!
//! Kernel TCP keeps one send whole only while the send buffer has room. So the senders hold back:
//! the receiver acknowledges, and no more than `WINDOW` records are under way. (4 KiB each; the
//! kernel's buffers take far more.)

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use tests::pattern;
use tests::progress::{self, Gauge};
use tests::rng::Rng;
use tests::sock;

use crate::Link;

const THREADS: usize = 4;
const WINDOW: u64 = 16;
/// Divides the number of all records, so that the last one is acknowledged.
const ACKNOWLEDGE_EVERY: u64 = THREADS as u64;
const HEADER: usize = 16;
const MAX_RECORD: usize = 4096;
const AVERAGE: u64 = MAX_RECORD as u64 / 2;
const ACKNOWLEDGEMENT: u8 = 0xFF;

/// Counts the records under way and makes the senders wait.
struct Window {
    state: Mutex<(u64, u64)>,
    moved: Condvar,
}

impl Window {
    fn enter(&self) {
        let state = self.state.lock().expect("lock");
        let mut state = self
            .moved
            .wait_while(state, |(sent, acknowledged)| {
                *sent - *acknowledged >= WINDOW
            })
            .expect("lock");
        state.0 += 1;
    }

    fn all_acknowledged(&self, records: u64) -> bool {
        self.state.lock().expect("lock").1 == records * THREADS as u64
    }

    fn acknowledge(&self, count: u64) {
        self.state.lock().expect("lock").1 = count;
        self.moved.notify_all();
    }
}

/// Runs every link with several senders and one receiver.
pub fn run(links: &[Link]) {
    thread::scope(|scope| {
        for link in links {
            scope.spawn(move || run_link(link));
        }
    });
}

fn run_link(link: &Link) {
    let records = link.bytes / AVERAGE / THREADS as u64;
    let window = Window {
        state: Mutex::new((0, 0)),
        moved: Condvar::new(),
    };
    let gauge = progress::gauge(format!("records sent, link {}", link.number), link.bytes);
    let mut input = Input::new(link);
    link.stream.set_nodelay(true).expect("TCP_NODELAY");
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (window, gauge) = (&window, Arc::clone(&gauge));
            scope.spawn(move || send_records(link, thread, records, window, &gauge));
        }
        let mut next = [0; THREADS];
        while next != [records; THREADS] || !window.all_acknowledged(records) {
            input.take_record(&mut next, &window, link);
        }
    });
    link.stream.shutdown(Shutdown::Write).expect("shutdown");
    assert!(input.next().is_none(), "a record too many");
}

fn send_records(link: &Link, thread: usize, records: u64, window: &Window, gauge: &Gauge) {
    let mut rng = Rng::new(link.seed, link.stream_seed(16 + thread as u64));
    for number in 0..records {
        window.enter();
        let body = rng.below(MAX_RECORD - HEADER);
        let record = encode(thread as u8, number, body, link.outgoing());
        send_whole(&link.stream, &record).expect("send");
        gauge.add(record.len() as u64);
    }
}

/// A header (thread, length, number) and a body from the pattern of `direction`.
fn encode(thread: u8, number: u64, body: usize, direction: u8) -> Vec<u8> {
    let mut record = vec![0; HEADER + body];
    record[0] = thread;
    record[2..4].copy_from_slice(&(body as u16).to_le_bytes());
    record[8..16].copy_from_slice(&number.to_le_bytes());
    let place = number * MAX_RECORD as u64 + u64::from(thread);
    pattern::fill(direction, place, &mut record[HEADER..]);
    record
}

fn send_whole(stream: &TcpStream, record: &[u8]) -> io::Result<()> {
    let sent = sock::send(stream.as_raw_fd(), record, 0)?;
    assert_eq!(
        sent,
        record.len(),
        "a blocking send with room in the buffer"
    );
    Ok(())
}

/// The receiving side: reads ahead and cuts the stream into records.
struct Input {
    fd: i32,
    direction: u8,
    buffer: Vec<u8>,
    rng: Rng,
    received: u64,
    gauge: Arc<Gauge>,
}

impl Input {
    fn new(link: &Link) -> Self {
        Self {
            fd: link.fd(),
            direction: link.incoming(),
            buffer: Vec::new(),
            rng: Rng::new(link.seed, link.stream_seed(4)),
            received: 0,
            gauge: progress::gauge(
                format!("records received, link {}", link.number),
                link.bytes,
            ),
        }
    }

    /// Reads until `length` bytes are there; false at EOF.
    fn want(&mut self, length: usize) -> bool {
        while self.buffer.len() < length {
            let mut piece = vec![0; self.rng.size(64 * 1024)];
            let taken = sock::recv(self.fd, &mut piece, 0).expect("recv");
            if taken == 0 {
                assert!(self.buffer.is_empty(), "EOF inside a record");
                return false;
            }
            self.buffer.extend_from_slice(&piece[..taken]);
            self.gauge.add(taken as u64);
        }
        true
    }

    /// The next record's thread, number and body, if any.
    fn next(&mut self) -> Option<(u8, u64, Vec<u8>)> {
        if !self.want(HEADER) {
            return None;
        }
        let body = usize::from(u16::from_le_bytes([self.buffer[2], self.buffer[3]]));
        assert!(body < MAX_RECORD, "a torn record: body of {body} bytes");
        assert!(self.want(HEADER + body), "EOF inside a record");
        let record: Vec<u8> = self.buffer.drain(..HEADER + body).collect();
        let number = u64::from_le_bytes(record[8..16].try_into().expect("eight bytes"));
        Some((record[0], number, record[HEADER..].to_vec()))
    }

    /// Takes one record: a peer's, which is checked and counted in `next`, or an acknowledgement.
    fn take_record(&mut self, next: &mut [u64; THREADS], window: &Window, link: &Link) {
        let (thread, number, body) = self.next().expect("EOF before the last record");
        if thread == ACKNOWLEDGEMENT {
            window.acknowledge(number);
            return;
        }
        let expected = next.get_mut(usize::from(thread)).expect("a torn record");
        assert_eq!(number, *expected, "order of the records of thread {thread}");
        *expected += 1;
        let place = number * MAX_RECORD as u64 + u64::from(thread);
        pattern::check(self.direction, place, &body)
            .unwrap_or_else(|wrong| panic!("record {number} of thread {thread}: {wrong}"));
        self.received += 1;
        if self.received.is_multiple_of(ACKNOWLEDGE_EVERY) {
            let record = encode(ACKNOWLEDGEMENT, self.received, 0, 0);
            send_whole(&link.stream, &record).expect("acknowledge");
        }
    }
}
