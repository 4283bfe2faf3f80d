//! redis with a replica: full and partial resynchronisation under load, a replica and a master that
//! are killed, and the ways in which redis writes to clients that did not ask.

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::program::Running;
use tests::{ports, wait};

/// A server; the master is the server side, its replica, which connects to it, the client side.
struct Node {
    port: u16,
    side: Side,
    server: Running,
}

impl Node {
    fn start(place: &Place, side: Side, port: u16, options: &str) -> Self {
        let server = place.program(side, "redis-server");
        let folder = place.folder().join(port.to_string());
        std::fs::create_dir_all(&folder).expect("a folder");
        let server = server
            .args(&format!(
                "--port {port} --enable-debug-command yes --repl-diskless-sync-delay 0 {options} --dir"
            ))
            .arg(folder)
            .args("--save")
            .arg("")
            .start()
            .listening(port);
        Self { port, side, server }
    }

    /// The client runs on the other side, so that with one end no connection has two.
    fn cli(&self, place: &Place, command: &str) -> String {
        let cli = place.program(other(self.side), "redis-cli");
        let answer = cli.args(&format!("-p {} {command}", self.port)).run();
        answer.trim_end().to_owned()
    }

    /// One field of `info`.
    fn info(&self, place: &Place, field: &str) -> String {
        let info = self.cli(place, "info");
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap_or_default().trim().to_owned()
    }

    fn kill(self) {
        self.server.signal(libc::SIGKILL);
        self.server.wait();
    }

    fn shut_down(self, place: &Place) {
        self.cli(place, "shutdown nosave");
        self.server.succeed();
    }
}

fn other(side: Side) -> Side {
    match side {
        Side::Server => Side::Client,
        Side::Client => Side::Server,
    }
}

struct Replication {
    master: Node,
    replica: Node,
    place: Place,
}

const REPLICA: &str = "--replica-read-only yes --replicaof 127.0.0.1";

impl Replication {
    fn start(ends: Ends, options: &str) -> Self {
        let place = Place::new(ends);
        let master = Node::start(&place, Side::Server, ports::free(), options);
        master.cli(&place, "debug populate 20000 key 200");
        let replica = Node::start(
            &place,
            Side::Client,
            ports::free(),
            &format!("{REPLICA} {}", master.port),
        );
        let mut replication = Self {
            master,
            replica,
            place,
        };
        replication.wait_for_link();
        replication
    }

    fn wait_for_link(&mut self) {
        let place = &self.place;
        wait::until("the link is up", || {
            self.replica.info(place, "master_link_status") == "up"
        });
    }

    fn load(&self, requests: usize) -> Running {
        let load = self.place.client("redis-benchmark");
        let options = "-q -c 8 -P 4 -d 300 -r 20000 -t set,lpush,incr,sadd,zadd";
        load.args(&format!("-p {} -n {requests} {options}", self.master.port))
            .start()
    }

    /// Waits until the master has written some more of the load to its replicas, or has all of it.
    fn goes_on(&self, load: &mut Running) {
        const MORE: u64 = 300_000;
        let offset = || -> u64 {
            let offset = self.master.info(&self.place, "master_repl_offset");
            offset.parse().expect("a number")
        };
        let before = offset();
        wait::until("the load goes on", || {
            load.has_ended() || offset() >= before + MORE
        });
    }

    /// Once the replica has read all, both hold the same.
    fn same(&self) {
        let place = &self.place;
        let offset = |node: &Node, field| node.info(place, field);
        wait::until("the replica has caught up", || {
            offset(&self.master, "master_repl_offset") == offset(&self.replica, "slave_repl_offset")
        });
        let digest = self.master.cli(place, "debug digest");
        assert_eq!(digest.len(), 40, "{digest}");
        assert_eq!(digest, self.replica.cli(place, "debug digest"));
    }

    fn stop(self, rings: Rings) {
        self.replica.shut_down(&self.place);
        self.master.shut_down(&self.place);
        self.place.check(rings);
    }
}

/// BGSAVE forks while rings are in use; so does each full resynchronisation, and with `yes` the
/// forked child writes to the replica's connection itself.
#[test]
fn full_resynchronisation_under_load() {
    for &ends in Ends::all() {
        for diskless in ["yes", "no"] {
            let mut replication =
                Replication::start(ends, &format!("--repl-diskless-sync {diskless}"));
            let load = replication.load(12_000);
            // A replica that forgets where it was cannot go on from there.
            let replica = &replication.replica;
            replica.cli(&replication.place, "replicaof no one");
            let back = format!("replicaof 127.0.0.1 {}", replication.master.port);
            replication
                .master
                .cli(&replication.place, "debug change-repl-id");
            replica.cli(&replication.place, &back);
            replication.wait_for_link();
            let saved = replication
                .master
                .cli(&replication.place, "bgsave schedule");
            assert!(saved.contains("Background saving"), "{saved}");
            load.succeed();
            replication.same();
            replication.stop(Rings::Some);
        }
    }
}

/// The link is cut from both sides and taken up where it was.
#[test]
fn partial_resynchronisation() {
    for &ends in Ends::all() {
        let mut replication = Replication::start(ends, "--repl-backlog-size 64mb");
        let mut load = replication.load(12_000);
        for turn in 0..2 {
            replication.goes_on(&mut load);
            let (node, kind) = match turn % 2 {
                0 => (&replication.master, "replica"),
                _ => (&replication.replica, "master"),
            };
            let killed = node.cli(&replication.place, &format!("client kill type {kind}"));
            assert_eq!(killed, "1", "{kind}");
            replication.wait_for_link();
        }
        load.succeed();
        replication.same();
        let partial = replication
            .master
            .info(&replication.place, "sync_partial_ok");
        assert!(partial.parse::<u32>().is_ok_and(|n| n >= 2), "{partial}");
        replication.stop(Rings::Most);
    }
}

#[test]
fn killed_replica_and_killed_master() {
    for &ends in Ends::all() {
        let mut replication = Replication::start(ends, "");
        let mut load = replication.load(8_000);
        replication.goes_on(&mut load);
        let port = replication.replica.port;
        let options = format!("{REPLICA} {}", replication.master.port);
        let heir = |replication: &Replication| {
            Node::start(&replication.place, Side::Client, ports::free(), &options)
        };
        let next = heir(&replication);
        std::mem::replace(&mut replication.replica, next).kill();
        assert_ne!(port, replication.replica.port);
        replication.wait_for_link();
        load.succeed();
        replication.same();
        let digest = replication.replica.cli(&replication.place, "debug digest");
        let place = &replication.place;
        let master_port = replication.master.port;
        replication.master.kill();
        wait::until("the replica knows", || {
            replication.replica.info(place, "master_link_status") == "down"
        });
        assert_eq!(replication.replica.cli(place, "debug digest"), digest);
        // The replica becomes the master of a new server at the old one's address.
        replication.replica.cli(place, "replicaof no one");
        let options = format!("{REPLICA} {}", replication.replica.port);
        let reborn = Node::start(
            place,
            other(replication.replica.side),
            master_port,
            &options,
        );
        wait::until("the link is up", || {
            reborn.info(place, "master_link_status") == "up"
        });
        assert_eq!(reborn.cli(place, "debug digest"), digest);
        reborn.shut_down(place);
        replication.replica.shut_down(place);
        replication.place.check(Rings::Some);
    }
}

#[test]
fn pushed_messages() {
    const MESSAGES: usize = 3000;
    for &ends in Ends::all() {
        let place = Place::new(ends);
        let master = Node::start(&place, Side::Server, ports::free(), "");
        let client = |words: &str| {
            place
                .client("redis-cli")
                .args(&format!("-p {} {words}", master.port))
        };
        let mut subscriber = client("subscribe channel").start();
        let mut monitor = client("monitor").start();
        subscriber.prints("subscribe");
        monitor.prints("OK");
        let commands: String = (0..MESSAGES)
            .map(|number| {
                format!("PUBLISH channel message-{number}-\r\nSET key-{number} {number}\r\n")
            })
            .collect();
        std::fs::write(place.folder().join("commands"), commands).expect("commands");
        let pipe = place.client("sh").directory(place.folder()).arg("-c");
        let output = pipe
            .arg(format!("redis-cli -p {} --pipe < commands", master.port))
            .run();
        let expected = format!("errors: 0, replies: {}", 2 * MESSAGES);
        assert!(output.contains(&expected), "{output}");
        let last = format!("message-{}-", MESSAGES - 1);
        subscriber.prints(&last);
        monitor.prints(&format!("\"key-{}\"", MESSAGES - 1));
        let heard = subscriber.output();
        for number in 0..MESSAGES {
            assert!(
                heard.contains(&format!("message-{number}-")),
                "message {number}"
            );
        }
        assert_eq!(master.cli(&place, "dbsize"), MESSAGES.to_string());
        assert_eq!(master.cli(&place, "client kill type pubsub"), "1");
        subscriber.stop(libc::SIGTERM);
        monitor.stop(libc::SIGTERM);
        master.shut_down(&place);
        place.check(Rings::Some);
    }
}
