//! redis by a path: redis-benchmark, big values, pipelines, subscribers and MONITOR.

use std::fs;
use std::path::PathBuf;

use tests::place::{Place, Rings};
use tests::program::{Program, Running};
use tests::wait;

use super::{same_as_kernel, same_as_kernel_with};
use crate::{pattern_file, same_content};

const REQUESTS: usize = 5_000;

struct Redis<'a> {
    place: &'a Place,
    socket: PathBuf,
    server: Running,
}

impl<'a> Redis<'a> {
    fn start(place: &'a Place) -> Self {
        let socket = place.folder().join("redis");
        let server = place.server("redis-server").args("--port 0 --unixsocket");
        let server = server.arg(&socket).args("--dir").arg(place.folder());
        let server = server.args("--save").arg("").start().listening_at(&socket);
        Self {
            place,
            socket,
            server,
        }
    }

    fn client(&self, program: &str, options: &str) -> Program {
        let client = self.place.client(program).arg("-s").arg(&self.socket);
        client.args(options).directory(self.place.folder())
    }

    fn cli(&self, command: &str) -> String {
        self.client("redis-cli", command)
            .run()
            .trim_end()
            .to_owned()
    }

    /// redis-cli in a shell, with what `line` says around it.
    fn shell(&self, line: &str) -> String {
        let line = line.replace("CLI", &format!("redis-cli -s {}", self.socket.display()));
        let shell = self.place.client("sh").args("-ec").arg(line);
        shell.directory(self.place.folder()).run()
    }

    fn stop(self) {
        self.cli("shutdown nosave");
        self.server.succeed();
    }
}

#[test]
fn benchmark() {
    same_as_kernel_with(Rings::Most, Rings::Most, |place| {
        let redis = Redis::start(place);
        let bench = |options: &str| {
            let options = format!("-q -n {REQUESTS} {options}");
            redis.client("redis-benchmark", &options).run()
        };
        bench("-c 20 -t get,incr,lpush");
        bench("-c 10 -P 16 -d 4096 -t set,get");
        bench("-c 50 --threads 2 -t get");
        let counts = [
            "get counter:__rand_int__",
            "llen mylist",
            "strlen key:__rand_int__",
        ];
        let text = counts.map(|command| redis.cli(command)).join("\n");
        redis.stop();
        text
    });
}

#[test]
fn big_values_and_pipelines() {
    same_as_kernel(Rings::Some, |place| {
        let redis = Redis::start(place);
        let [value, copy] = ["value", "copy"].map(|name| place.folder().join(name));
        pattern_file(&value, 8_000_000);
        let mut text = redis.shell("CLI -x set big < value; CLI strlen big; CLI get big > raw");
        // redis-cli ends its output with a newline.
        redis.shell("head -c 8000000 raw > copy");
        same_content(&value, &copy);
        let commands: String = (0..20_000)
            .map(|number| format!("SET key:{number} value-{number}\r\nGET key:{number}\r\n"))
            .collect();
        fs::write(place.folder().join("commands"), commands).expect("commands");
        text += &redis.shell("CLI --pipe < commands");
        text += &redis.shell("CLI -r 500 incr counter; CLI dbsize; CLI get key:19999");
        redis.stop();
        text
    });
}

/// Each of two subscribers has every message in its order, and MONITOR every command.
#[test]
fn subscribers_and_monitor() {
    same_as_kernel(Rings::Some, |place| {
        const MESSAGES: usize = 300;
        let redis = Redis::start(place);
        let mut monitor = redis.client("redis-cli", "monitor").start();
        monitor.prints("OK");
        let mut subscribers = ["subscribe news", "psubscribe n*"].map(|command| {
            let mut subscriber = redis.client("redis-cli", command).start();
            subscriber.prints("subscribe\n");
            subscriber
        });
        let commands: String = (0..MESSAGES)
            .map(|number| format!("publish news {}-{}\n", number, "x".repeat(number * 7)))
            .collect();
        fs::write(
            place.folder().join("commands"),
            commands + "publish news last\n",
        )
        .expect("commands");
        let heard = redis.shell("CLI < commands");
        for running in &mut subscribers {
            running.prints("\nlast\n");
        }
        monitor.prints("\"last\"");
        let mut text = heard;
        for running in subscribers {
            text += &running.stop(libc::SIGTERM).output;
        }
        text += &commands_of(&monitor.stop(libc::SIGTERM).output);
        wait::until("nobody listens any more", || {
            redis.cli("publish news nobody") == "0"
        });
        redis.stop();
        text
    });
}

/// MONITOR's lines without the time and the address.
fn commands_of(monitor: &str) -> String {
    let commands = monitor.lines().filter_map(|line| line.split_once("] "));
    commands
        .map(|(_, command)| format!("{command}\n"))
        .collect()
}
