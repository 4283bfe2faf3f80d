//! An exporter in a process of its own, which stops meanwhile.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ulsock_native::memory::{EventQueue, Exporter, Import, RegionKey};

const ROLE: &str = "TEST_OF_MEMORY";
const SIZE: usize = 600_000;

/// Tells its key, and then whether the last byte of its region comes.
fn export() {
    let queue = EventQueue::new().expect("a queue");
    let exporter = Exporter::bind("127.0.0.1:0").expect("an exporter");
    let region = exporter.export(SIZE, &queue).expect("a region");
    let key = region.key().to_bytes();
    let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    println!("\nkey {text}");
    let (begun, mut last) = (Instant::now(), [0]);
    while last == [0] && begun.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(1));
        region.read(SIZE - 1, &mut last).expect("read");
    }
    println!("\nlast {}", last[0]);
}

struct Exporting {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Exporting {
    /// This test program once more.
    fn begin() -> Exporting {
        let program = std::env::current_exe().expect("a program");
        let mut child = Command::new(program)
            .args(["stopped::what_is_written_is_sent", "--exact", "--nocapture"])
            .env(ROLE, "exports")
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Exporting { child, output }
    }

    /// What stands behind this word.
    fn told(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).expect("a line") > 0);
            if let Some(rest) = line.strip_prefix(word) {
                return rest.trim().to_owned();
            }
        }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a call without pointers, to a child that was not waited for.
        unsafe { libc::kill(self.child.id().cast_signed(), signal) };
    }
}

/// Also if the import is dropped at once, and the exporter gets to it later: then it answers who is not there any more.
#[test]
fn what_is_written_is_sent() {
    if std::env::var(ROLE).is_ok() {
        crate::begin();
        return export();
    }
    crate::begin();
    for len in [200_000, 250_000, 400_000] {
        let mut exporting = Exporting::begin();
        let text = exporting.told("key ");
        let digits = text.as_bytes().chunks(2);
        let key: Vec<u8> = digits
            .map(|pair| std::str::from_utf8(pair).expect("text"))
            .map(|pair| u8::from_str_radix(pair, 16).expect("a byte"))
            .collect();
        let key = RegionKey::from_bytes(&key).expect("a key");
        let import = Import::open_blocking(&key).expect("imported");
        exporting.signal(libc::SIGSTOP);
        for at in (SIZE - len..SIZE).step_by(len / 20) {
            let bytes = vec![9; len / 20];
            import.write_blocking(at, &bytes).expect("written");
        }
        drop(import);
        thread::sleep(Duration::from_millis(200));
        exporting.signal(libc::SIGCONT);
        assert_eq!(exporting.told("last "), "9", "{len}");
        exporting.child.wait().expect("its end");
    }
}
