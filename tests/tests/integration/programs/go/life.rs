//! What happens to a program of Go in its life: an end is killed, it is asked for its stacks, debuggers look at it.

use tests::ends::{Ends, kernel_only};
use tests::go::newest;
use tests::place::Place;
use tests::program::{Finished, Running};
use tests::{top, wait};

use super::talk_server;

const CONNECTIONS: usize = 8;

/// A server and a client with round trips under way; both on rings, if they are under ulsock.
fn under_way(place: &Place) -> (Running, Running) {
    let talk = newest("talk");
    let (port, server) = talk_server(place, &talk);
    let client = place.client(&talk.to_string_lossy());
    let client = client.args(&format!("forever {port} {CONNECTIONS}"));
    let mut client = client.start();
    goes_on(&mut client);
    if place.ends() == Ends::Both {
        wait::until("all connections have rings", || {
            let rows = top::rows(place.run_dir());
            rows.iter().filter(|row| row.is_accelerated()).count() == 2 * CONNECTIONS
        });
    }
    (server, client)
}

/// It makes more round trips than it had made.
fn goes_on(client: &mut Running) {
    let before = trips(client);
    client.until("it makes round trips", |client| {
        trips(client) > before + 100
    });
}

fn trips(client: &Running) -> u64 {
    let output = client.output();
    // The last line may be half there.
    let whole = output.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let last = whole.lines().last().and_then(|line| line.split(' ').next());
    last.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The other end sees that it has gone, and ends itself.
#[test]
fn killed() {
    for &ends in Ends::all() {
        let place = Place::new(ends).eager();
        let (server, client) = under_way(&place);
        server.stop(libc::SIGKILL);
        let output = client.succeed();
        assert!(output.ends_with("gone\n"), "{output}");
        place.check_quiet();
        let place = Place::new(ends).eager();
        let (mut server, client) = under_way(&place);
        client.stop(libc::SIGKILL);
        // All its goroutines have ended, and a new client is served.
        wait::until("the server has no connection", || {
            !kernel_only() && top::rows(place.run_dir()).is_empty() || ends != Ends::Both
        });
        assert!(!server.has_ended(), "the server ended with its client");
        server.stop(libc::SIGTERM);
    }
}

/// SIGQUIT prints the stacks of all goroutines, with those that wait in a call of ours, and ends the program.
#[test]
fn asked_for_its_stacks() {
    for &ends in Ends::all() {
        let place = Place::new(ends).eager();
        let (server, client) = under_way(&place);
        let Finished { status, errors, .. } = client.stop(libc::SIGQUIT);
        assert_eq!(status.code(), Some(2), "{errors}");
        for text in ["SIGQUIT: quit", "main.forever", "main.tripUntilEnd"] {
            assert!(errors.contains(text), "no {text:?} in {errors}");
        }
        for text in ["unexpected", "fatal error", "ulsock:"] {
            assert!(!errors.contains(text), "{text:?} in {errors}");
        }
        server.stop(libc::SIGTERM);
    }
}

/// gdb stops it wherever it is, and it goes on.
#[test]
fn looked_at_by_gdb() {
    let place = Place::new(Ends::both()).eager();
    let (server, mut client) = under_way(&place);
    for _ in 0..3 {
        let gdb = place.client("gdb").without("LD_PRELOAD");
        let gdb = gdb.args(&format!("-nx -q -batch -p {} -ex", client.pid()));
        let gdb = gdb.arg("thread apply all backtrace 3").args("-ex detach");
        let finished = gdb.start().wait();
        assert!(finished.output.contains("Thread"), "{}", finished.errors);
        goes_on(&mut client);
    }
    client.stop(libc::SIGTERM);
    server.succeed();
    place.check_quiet();
}
