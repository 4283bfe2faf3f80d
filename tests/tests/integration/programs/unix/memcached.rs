//! memcached by a path, under its own uid, with Debian's libmemcached tools.

use tests::place::Rings;

use super::{owned_folder, same_as_kernel_with};
use crate::{pattern_file, same_content};

/// Client programs and their arguments, and whether what they print hangs on nothing but the server.
const TOOLS: &[(&str, &str, bool)] = &[
    ("memccp", "value", true),
    ("memcexist", "value", true),
    ("memccat", "--file=copy value", true),
    (
        "memcslap",
        "--concurrency=4 --execute-number=1500 --test=set",
        false,
    ),
    (
        "memcslap",
        "--non-blocking --binary --concurrency=4 --execute-number=1500 --test=get",
        false,
    ),
    ("memcrm", "value", true),
];

#[test]
fn tools() {
    same_as_kernel_with(Rings::Most, Rings::Most, |place| {
        // Its user has to bind there.
        owned_folder(&place.folder().join("home"), "memcache");
        let socket = place.folder().join("home/socket");
        let server = place.server("memcached").args("-u memcache -t 2 -a 777 -s");
        let folder = place.folder();
        let server = server.arg(&socket).start().listening_at(&socket);
        pattern_file(&folder.join("value"), 900_000);
        let mut text = String::new();
        for (tool, arguments, whole) in TOOLS {
            let client = place.client(tool).args(arguments).directory(folder);
            let client = client.arg(format!("--servers={}", socket.display()));
            let output = client.run();
            let lines = output.lines();
            let lines = lines.filter(|line| *whole || line.contains("keys by"));
            // memcslap says the time behind the number of keys.
            let lines = lines.filter_map(|line| line.split(':').next());
            text.extend(lines.map(|line| format!("{line}\n")));
        }
        same_content(&folder.join("value"), &folder.join("copy"));
        server.stop(libc::SIGTERM);
        text + "all tools"
    });
}
