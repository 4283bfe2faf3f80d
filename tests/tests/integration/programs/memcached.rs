//! memcached under its own uid with Debian's libmemcached tools and a small Python client.

use tests::ends::Ends;
use tests::place::{Place, Rings};
use tests::ports;

use crate::{pattern_file, same_content, script};

/// Client programs, their arguments (`SERVER` is replaced) and what their output must contain.
const TOOLS: &[(&str, &str, &str)] = &[
    ("memcping", "--servers=SERVER", ""),
    ("memccp", "--servers=SERVER value", ""),
    ("memcexist", "--servers=SERVER value", ""),
    ("memccat", "--servers=SERVER --file=copy value", ""),
    (
        "memcslap",
        "--servers=SERVER --concurrency=4 --execute-number=2000 --test=set",
        "8000 keys by    4 threads",
    ),
    (
        "memcslap",
        "--servers=SERVER --non-blocking --binary --concurrency=4 --execute-number=2000 --test=get",
        "8000 keys by    4 threads",
    ),
    (
        "memcaslap",
        "-s SERVER -T 2 -c 16 -x 20000",
        "get_misses: 0",
    ),
    ("memcstat", "--servers=SERVER", "curr_items"),
    ("memcrm", "--servers=SERVER value", ""),
];

#[test]
fn tools() {
    for &ends in Ends::all() {
        let place = Place::new(ends);
        let port = ports::free();
        let server = place
            .server("memcached")
            .args(&format!("-u memcache -l 127.0.0.1 -p {port} -U 0 -t 2"))
            .start()
            .listening(port);
        let value = place.folder().join("value");
        pattern_file(&value, 900_000);
        for (tool, arguments, expected) in TOOLS {
            let arguments = arguments.replace("SERVER", &format!("127.0.0.1:{port}"));
            let client = place.client(tool).args(&arguments);
            let output = client.directory(place.folder()).run();
            assert!(output.contains(expected), "{tool} {arguments}: {output}");
        }
        same_content(&value, &place.folder().join("copy"));
        let python = place
            .client("/usr/bin/python3")
            .arg(script("memcached_client.py"));
        assert_eq!(python.arg(port.to_string()).run(), "ok\n");
        server.stop(libc::SIGTERM);
        place.check(Rings::Most);
    }
}

/// Outside of user namespaces nobody is a user as any other.
#[test]
fn as_nobody() {
    let place = Place::new(Ends::both());
    let port = ports::free();
    let server = place
        .server("memcached")
        .args(&format!("-u nobody -l 127.0.0.1 -p {port} -U 0 -t 2"))
        .start()
        .listening(port);
    let arguments = format!("--servers=127.0.0.1:{port} --execute-number=2000 --test=set");
    place.client("memcslap").args(&arguments).run();
    server.stop(libc::SIGTERM);
    place.check(Rings::Most);
}
