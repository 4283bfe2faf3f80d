//! Python: http.server with curl, and asyncio on both ends.

use tests::ends::Ends;
use tests::place::{Place, Rings};
use tests::ports;

use crate::{pattern_file, same_content, script};

#[test]
fn http_server() {
    for &ends in Ends::all() {
        let place = Place::new(ends).eager();
        let port = ports::free();
        let file = place.folder().join("file");
        let copy = place.folder().join("copy");
        pattern_file(&file, 20_000_000);
        let server = place
            .server("/usr/bin/python3")
            .args(&format!("-m http.server {port} --bind 127.0.0.1"))
            .directory(place.folder())
            .start()
            .listening(port);
        for _ in 0..3 {
            let curl = place.client("curl").args("-sS --fail -o").arg(&copy);
            curl.arg(format!("http://127.0.0.1:{port}/file")).run();
            same_content(&file, &copy);
        }
        server.stop(libc::SIGINT);
        place.check(Rings::Some);
    }
}

#[test]
fn asyncio_echo() {
    for &ends in Ends::all() {
        let place = Place::new(ends);
        let port = ports::free().to_string();
        let script = script("asyncio_echo.py");
        let server = place
            .server("/usr/bin/python3")
            .arg(&script)
            .arg("serve")
            .arg(&port);
        let server = server.start().listening(port.parse().expect("a port"));
        let client = place
            .client("/usr/bin/python3")
            .arg(&script)
            .arg("call")
            .arg(&port);
        assert_eq!(client.run(), "ok\n");
        server.stop(libc::SIGINT);
        place.check(Rings::Most);
    }
}
