//! Each toolchain of `tests/programs/go/toolchains.txt` that `TESTS_GO` chooses: one small test of a program that it built,
//! against itself and against the newest.

use tests::ends::{Ends, kernel_only};
use tests::go::{Linked, Toolchain, newest};
use tests::place::{Place, Rings};

use super::{talk, talk_client, talk_server};

const SUBJECTS: &str = "ping echo many half-close raw closed commands stacks";

#[test]
fn every_toolchain() {
    let newest = newest("talk");
    for toolchain in Toolchain::chosen() {
        let version = &toolchain.version;
        println!("Go {version}");
        let program = toolchain.program("talk", Linked::ByDefault);
        let kernel = talk(&Place::new(Ends::Kernel), &program, SUBJECTS);
        if kernel_only() {
            continue;
        }
        let place = Place::new(Ends::Both).eager();
        let ours = talk(&place, &program, SUBJECTS);
        assert_eq!(ours, kernel, "Go {version}");
        place.check(Rings::Most);
        // One version's server with another's client.
        let place = Place::new(Ends::Both).eager();
        let (port, server) = talk_server(&place, &program);
        let ours = talk_client(&place, &newest, port).args(SUBJECTS).run();
        assert_eq!(ours, kernel, "a server of Go {version}, the newest client");
        server.succeed();
        place.check(Rings::Most);
    }
}
