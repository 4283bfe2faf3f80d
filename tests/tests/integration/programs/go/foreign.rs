//! Go against C, in both roles: redis-server and nginx with clients of Go, servers of Go with redis-benchmark, redis-cli,
//! curl, ab and wrk; and both in one program.

use tests::ends::{Ends, Side};
use tests::go::newest;
use tests::place::{Place, Rings};
use tests::ports;

use super::{same_as_kernel, web};
use crate::programs::nginx::Nginx;

/// C code in the program itself, with sockets of its own and with Go's.
#[test]
fn c_in_the_same_program() {
    let (echo, mixed) = (newest("echo"), newest("mixed"));
    same_as_kernel(Rings::Most, |place| {
        let port = ports::free();
        let server = place.program(Side::Server, &echo);
        let server = server.args(&format!("serve 127.0.0.1:{port}")).piped();
        let server = server.start().listening(port);
        let client = place.program(Side::Client, &mixed);
        let text = client.arg(port.to_string()).run();
        server.succeed();
        text
    });
}

#[test]
fn client_of_redis() {
    let keys = newest("keys");
    same_as_kernel(Rings::Most, |place| {
        let port = ports::free();
        let server = place.server("redis-server").args("--appendonly no --save");
        let server = server.arg("").args(&format!("--port {port}"));
        let server = server.start().listening(port);
        let client = place.program(Side::Client, &keys);
        let text = client.args(&format!("call {port}")).run();
        server.stop(libc::SIGTERM);
        text
    });
}

#[test]
fn server_of_redis_tools() {
    let keys = newest("keys");
    same_as_kernel(Rings::Most, |place| {
        let port = ports::free();
        let server = place.program(Side::Server, &keys);
        let server = server.args(&format!("serve {port}")).piped().start();
        let server = server.listening(port);
        for options in ["-c 20", "-c 4 -P 16 -d 4096", "-c 50 --threads 2"] {
            let tool = place.client("redis-benchmark");
            let options = format!("-p {port} -q -n 10000 -t set,get,incr {options}");
            let output = tool.args(&options).run();
            assert!(output.contains("GET"), "{output}");
        }
        let cli = |command: &str| {
            let tool = place.client("redis-cli");
            tool.args(&format!("-p {port} {command}")).run()
        };
        let text = cli("-r 500 incr own") + &cli("get counter:__rand_int__");
        server.succeed();
        text
    });
}

#[test]
fn client_of_nginx() {
    let web = newest("web");
    for &ends in Ends::all() {
        let nginx = Nginx::start(ends, 2);
        nginx.add_big_file();
        let mut texts = Vec::new();
        for place in [&Place::new(Ends::Kernel), &nginx.place] {
            let fetch = |file: &str, times: u32| {
                let client = place.program(Side::Client, &web).arg("fetch");
                let client = client.arg(format!("http://127.0.0.1:{}/{file}", nginx.port));
                client.arg(times.to_string()).run()
            };
            texts.push(fetch("small", 200) + &fetch("big", 0));
        }
        assert_eq!(texts[0], texts[1], "{ends:?}");
        // The client without ulsock was served by kernel TCP.
        nginx.stop().check(Rings::Some);
    }
}

#[test]
fn server_of_tools() {
    let web = newest("web");
    same_as_kernel(Rings::Some, |place| {
        let ([port, _, _], server) = web::server(place, &web);
        let url = format!("http://127.0.0.1:{port}");
        let curl = place.client("curl").args("-sS --fail");
        let text = curl.arg(format!("{url}/page")).arg(format!("{url}/stream"));
        let text = text.run();
        let wrk = place.client("wrk").args("-t1 -c16 -d1s");
        let output = wrk.arg(format!("{url}/page")).run();
        let clean = output.contains("Requests/sec") && !output.contains("rrors");
        assert!(clean, "{output}");
        for options in ["-k -c 8 -n 4000", "-c 4 -n 500"] {
            let ab = place.client("ab").args("-q").args(options);
            let output = ab.arg(format!("{url}/page")).run();
            assert!(output.contains("Failed requests:        0"), "{output}");
        }
        server.succeed();
        text
    });
}
