//! redis-server with redis-benchmark and redis-cli, including the two ways to save (BGSAVE forks while
//! the connections are open).

use tests::ends::Ends;
use tests::place::{Place, Rings};
use tests::ports;
use tests::program::Running;

use crate::pattern_file;

const REQUESTS: usize = 20_000;

struct Redis {
    port: u16,
    server: Running,
    place: Place,
}

impl Redis {
    fn start(ends: Ends) -> Self {
        let place = Place::new(ends);
        let port = ports::free();
        let server = place
            .server("redis-server")
            .args(&format!("--port {port} --appendonly no --dir"))
            .arg(place.folder())
            .args("--save")
            .arg("")
            .start()
            .listening(port);
        Self {
            place,
            port,
            server,
        }
    }

    fn cli(&self, command: &str) -> String {
        let cli = self.place.client("redis-cli");
        let answer = cli.args(&format!("-p {} {command}", self.port)).run();
        answer.trim_end().to_owned()
    }

    fn benchmark(&self, options: &str) -> String {
        let options = format!("-p {} -q -n {REQUESTS} {options}", self.port);
        self.place.client("redis-benchmark").args(&options).run()
    }

    fn stop(self, rings: Rings) {
        self.cli("shutdown nosave");
        self.server.succeed();
        self.place.check(rings);
    }
}

#[test]
fn benchmark() {
    for &ends in Ends::all() {
        let redis = Redis::start(ends);
        let output = redis.benchmark("-c 20 -t ping,set,get,incr,lpush,mset");
        for name in ["PING_MBULK", "SET", "GET", "INCR", "LPUSH", "MSET"] {
            assert!(output.contains(name), "{name} in {output}");
        }
        assert_eq!(redis.cli("get counter:__rand_int__"), REQUESTS.to_string());
        assert_eq!(redis.cli("llen mylist"), REQUESTS.to_string());
        redis.benchmark("-c 10 -P 16 -d 4096 -t set,get");
        redis.benchmark("-c 50 --threads 2 -t get");
        redis.stop(Rings::Most);
    }
}

#[test]
fn cli() {
    for &ends in Ends::all() {
        let redis = Redis::start(ends);
        let value = redis.place.folder().join("value");
        let copy = redis.place.folder().join("copy");
        pattern_file(&value, 5_000_000);
        shell(&redis, "-x set big < value", "OK");
        shell(&redis, "get big > copy", "");
        // redis-cli ends its output with a newline.
        shell(&redis, "--no-raw strlen big", "(integer) 5000000");
        let copied = std::fs::read(&copy).expect("the copy");
        assert_eq!(
            copied.split_last().map(|(_, rest)| rest),
            std::fs::read(&value).ok().as_deref()
        );
        shell(&redis, "-r 2000 incr counter > counts", "");
        assert_eq!(redis.cli("get counter"), "2000");
        redis.stop(Rings::Some);
    }
}

fn shell(redis: &Redis, command: &str, expected: &str) {
    let output = redis
        .place
        .client("sh")
        .args("-c")
        .arg(format!("redis-cli -p {} {command}", redis.port))
        .directory(redis.place.folder())
        .run();
    assert_eq!(output.trim_end(), expected, "redis-cli {command}");
}

#[test]
fn save_under_load() {
    for &ends in Ends::all() {
        let redis = Redis::start(ends);
        let load = redis
            .place
            .client("redis-benchmark")
            .args(&format!(
                "-p {} -q -n 60000 -c 10 -d 200 -r 1000 -t set,get",
                redis.port
            ))
            .start();
        for _ in 0..3 {
            assert_eq!(redis.cli("bgsave"), "Background saving started");
            while redis
                .cli("info persistence")
                .contains("rdb_bgsave_in_progress:1")
            {}
        }
        assert_eq!(redis.cli("save"), "OK");
        let state = redis.cli("info persistence");
        assert!(state.contains("rdb_last_bgsave_status:ok"), "{state}");
        assert!(state.contains("rdb_saves:4"), "{state}");
        load.succeed();
        redis.stop(Rings::Some);
    }
}
