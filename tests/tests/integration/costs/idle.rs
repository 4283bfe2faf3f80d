//! 500 idle connections cost no CPU time, half-closed or not, waited for by poll or by epoll; and each
//! still wakes its program afterwards. The four cases sleep at the same time.

use std::time::Duration;

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::program::Running;
use tests::{ports, procfs, top};

const CONNECTIONS: usize = 500;
const SETTLE: Duration = Duration::from_secs(1);
const SLEEP: Duration = Duration::from_secs(10);
/// A tenth of a percent of a core.
const UNMEASURABLE: Duration = Duration::from_millis(10);

struct Case {
    name: String,
    half: bool,
    server: Running,
    client: Running,
    place: Place,
}

impl Case {
    fn start(wait: &str, half: bool) -> Self {
        let place = Place::new(Ends::both());
        let port = ports::free();
        let half_word = u8::from(half);
        let server = place
            .own(Side::Server, "echo_epoll")
            .args(&format!("port={port} keep={half_word}"))
            .piped()
            .start()
            .listening(port);
        let options = format!("port={port} conns={CONNECTIONS} rounds=30");
        let mut client = place
            .own(Side::Client, "idle")
            .args(&format!("{options} wait={wait} half={half_word}"))
            .start();
        client.prints("idle");
        Self {
            name: format!("wait={wait} half={half}"),
            half,
            place,
            server,
            client,
        }
    }

    fn cpu_times(&self) -> [Duration; 2] {
        [&self.server, &self.client].map(|program| procfs::cpu_time(program.pid()))
    }

    /// All are on rings. (After a half-close the sending direction of the other end is not.)
    fn check_carriers(&self) {
        if self.half || self.place.ends() != Ends::Both {
            return;
        }
        let rows = top::rows(self.place.run_dir());
        for pid in [self.server.pid(), self.client.pid()] {
            let mut own = rows.iter().filter(|row| row.pid == pid);
            let accelerated = own.clone().filter(|row| row.is_accelerated()).count();
            let first = own.find(|row| !row.is_accelerated());
            assert_eq!(accelerated, CONNECTIONS, "{}: e.g. {first:?}", self.name);
        }
    }

    fn wake_and_end(mut self) {
        self.server.tell("poke\n");
        self.client.succeed();
        self.server.succeed();
        self.place.check(Rings::Some);
    }
}

#[test]
fn five_hundred_connections() {
    let cases = [
        ("poll", false),
        ("poll", true),
        ("epoll", false),
        ("epoll", true),
    ];
    let cases = cases.map(|(wait, half)| Case::start(wait, half));
    std::thread::sleep(SETTLE);
    let before = cases.each_ref().map(Case::cpu_times);
    std::thread::sleep(SLEEP);
    let after = cases.each_ref().map(Case::cpu_times);
    for (number, case) in cases.iter().enumerate() {
        for (program, name) in ["server", "client"].iter().enumerate() {
            let used = after[number][program] - before[number][program];
            assert!(
                used < UNMEASURABLE,
                "{} {name}: {used:?} in {SLEEP:?}",
                case.name
            );
        }
        case.check_carriers();
    }
    cases.into_iter().for_each(Case::wake_and_end);
}
