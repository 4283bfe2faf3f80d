//! gdb and strace on programs that talk: attached and detached in the middle, and from the start.

use std::fs;

use tests::ends::Ends;
use tests::place::{Place, Rings};
use tests::procfs;
use tests::program::{Program, built};

use super::nginx::{Load, Nginx, SMALL_FILE, answered};

/// Runs a tool on a process until it lets go of it again.
fn attach(place: &Place, tool: &str, pid: u32) {
    let program = Program::new(tool, &place.folder().join(format!("log-{tool}-{pid}")));
    let finished = if tool == "gdb" {
        let gdb = program.args(&format!("-nx -q -batch -p {pid} -ex"));
        let gdb = gdb.arg("thread apply all backtrace 3").args("-ex detach");
        gdb.start().wait()
    } else {
        let trace = place.folder().join(format!("trace-{pid}"));
        let strace = program.args("-f -q -o").arg(&trace);
        let mut strace = strace.args(&format!("-p {pid}")).start();
        strace.until("it has seen calls", |_| {
            let text = fs::read_to_string(&trace).unwrap_or_default();
            text.lines().count() > 100
        });
        strace.stop(libc::SIGINT)
    };
    let refused = finished.errors.contains("attach");
    assert!(!refused, "{tool}: {}", finished.errors);
    assert!(!procfs::is_gone(pid), "{tool} has ended its target");
}

/// The client waits in threads, nginx in epoll.
#[test]
fn attached_and_detached() {
    for &ends in Ends::all() {
        let nginx = Nginx::start(ends, 1);
        let mut load = Load::start(&nginx.place, nginx.port);
        load.goes_on();
        let worker = procfs::children(nginx.pid())[0];
        for tool in ["gdb", "strace"] {
            for pid in [worker, load.pid()] {
                attach(&nginx.place, tool, pid);
                load.goes_on();
            }
        }
        load.stop(0);
        nginx.stop().check(Rings::Some);
    }
}

#[test]
fn from_the_start() {
    const ANSWERS: usize = 200;
    for &ends in Ends::all() {
        let nginx = Nginx::start(ends, 1);
        let client = built("http_load").display().to_string();
        for line in [
            "strace -f -q -o /dev/null CLIENT",
            "gdb -nx -q -batch --return-child-result -ex run --args CLIENT",
        ] {
            let line = line.replace("CLIENT", &client);
            let (tool, rest) = line.split_once(' ').expect("a tool");
            let options = format!(
                "port={} file=small bytes={SMALL_FILE} keep=2 fresh=1",
                nginx.port
            );
            let mut run = nginx
                .place
                .client(tool)
                .args(rest)
                .args(&options)
                .piped()
                .start();
            run.until("it has answers", |run| answered(&run.output()) >= ANSWERS);
            let output = run.succeed();
            assert!(output.contains("again"), "{output}");
        }
        nginx.stop().check(Rings::Some);
    }
}
