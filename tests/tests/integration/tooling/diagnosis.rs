//! `ulsock doctor -- PROGRAM` and `ulsock doctor PID`: each kind of program that is not accelerated is told apart, with
//! its cure, and a running one says what its connections do.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use tests::compile::compile;
use tests::ends::{Ends, Side, kernel_only};
use tests::place::Place;
use tests::ports;
use tests::program::{Finished, Program, built};
use tests::top;

const STRANGER: u32 = 1002;

fn doctor(place: &Place) -> Program {
    let program = place.own(Side::Client, "ulsock").without("LD_PRELOAD");
    program.arg("doctor")
}

fn assert_says(finished: &Finished, status: i32, said: &[&str]) {
    let text = &finished.output;
    assert_eq!(
        finished.status.code(),
        Some(status),
        "{text}{}",
        finished.errors
    );
    for wanted in said {
        assert!(text.contains(wanted), "{wanted:?} in {text}");
    }
    assert_eq!(text.contains("  BAD  "), status != 0, "{text}");
    assert_eq!(finished.errors, "");
}

fn of_program(place: &Place, program: impl AsRef<Path>, status: i32, said: &[&str]) {
    let finished = doctor(place)
        .args("--")
        .arg(program.as_ref())
        .start()
        .wait();
    assert_says(&finished, status, said);
}

fn executable(path: PathBuf, bytes: &[u8]) -> PathBuf {
    fs::write(&path, bytes).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
    path
}

#[test]
fn programs_that_are_accelerated() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    of_program(
        &place,
        "redis-server",
        0,
        &[
            "linked with glibc: the library can be loaded",
            "ok   rights: those of the user who starts it",
            "ok   TCP: accept",
            "ok   libulsock_preload.so",
            "It would be accelerated: start it with `ulsock run",
        ],
    );
    let link = place.folder().join("interpreter");
    symlink("/usr/bin/python3", &link).expect("a link");
    let script = format!("#!{} -u\n", link.display());
    let script = executable(place.folder().join("script"), script.as_bytes());
    of_program(
        &place,
        &script,
        0,
        &["is a script (#!", "interpreter (/usr/bin/python3."],
    );
    of_program(&place, built("idle"), 0, &["ok   TCP: connect"]);
    // A library does it, which the program only names.
    of_program(&place, "curl", 0, &["libcurl"]);
}

#[test]
fn programs_without_a_loader_that_could_load_it() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let folder = place.folder();
    let source = folder.join("main.c");
    fs::write(&source, "int main(void) { return 0; }").expect("a source");
    let source = source.to_string_lossy();
    for flags in ["-static", "-static-pie -fPIE"] {
        let program = compile("cc", &source, flags, folder, "static");
        let said = [
            "BAD  kind: static: no loader runs",
            "link it dynamically with glibc",
            "It would not be",
        ];
        of_program(&place, program, 1, &said);
    }
    let musl = compile("musl-gcc", &source, "", folder, "musl");
    of_program(
        &place,
        musl,
        1,
        &["BAD  kind: linked with musl", "use a build for glibc"],
    );
    let musl = compile("musl-gcc", &source, "-static", folder, "musl-static");
    of_program(&place, musl, 1, &["BAD  kind: static"]);
}

#[test]
fn files_that_are_no_programs_for_us() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let folder = place.folder();
    let mut head = *b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0\0\0\0\0";
    let old = executable(folder.join("old"), &head);
    of_program(&place, old, 1, &["BAD  kind: a 32-bit program"]);
    head[4] = 2;
    head[18] = 183;
    let arm = executable(folder.join("arm"), &head);
    of_program(
        &place,
        arm,
        1,
        &["BAD  kind: a program for another processor"],
    );
    let text = executable(folder.join("text"), b"hello");
    of_program(&place, text, 1, &["BAD  kind: not a program"]);
    of_program(
        &place,
        folder.join("gone"),
        1,
        &["BAD  file: ", "No such file"],
    );
}

#[test]
fn a_program_with_rights_of_its_own() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let setuid = place.folder().join("setuid");
    fs::copy(built("idle"), &setuid).expect("a copy");
    chown(&setuid, Some(STRANGER), None).expect("chown");
    fs::set_permissions(&setuid, fs::Permissions::from_mode(0o4755)).expect("chmod");
    let said = ["BAD  rights: more than those of uid 0: it is setuid"];
    of_program(&place, &setuid, 1, &said);
}

#[test]
fn what_programs_do_that_only_the_kernel_can() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let uring = compile("cc", "uring.c", "-luring", place.folder(), "uring");
    of_program(
        &place,
        uring,
        0,
        &["io_uring: io_uring_", "(reason `io-uring`)"],
    );
    let rule = place.folder().join("ulsock.toml");
    let text = "[[rule]]\nport = 22\ncarrier = 'kernel'\n[[rule]]\nprogram = 'idle'\nring = 65536\n\
                [[rule]]\ncarrier = 'kernel'\n[[rule]]\nuser = 'nobody-knows'\ncarrier = 'on'\n";
    fs::write(&rule, text).expect("a file");
    fs::set_permissions(&rule, fs::Permissions::from_mode(0o644)).expect("chmod");
    let with_rules = |program: &Path| {
        doctor(&place)
            .env("ULSOCK_CONFIG_FILE", &rule)
            .arg("--")
            .arg(program)
            .start()
            .wait()
    };
    assert_says(
        &with_rules(&built("idle")),
        0,
        &[
            "line 1: connections to service port 22 stay on kernel TCP",
            "the rule in line 4 is for the whole program",
            "note: line 9: never reached: the rule in line 7 is for everything",
            "note: line 9: no user nobody-knows in /etc/passwd",
        ],
    );
    assert_says(
        &with_rules(&built("many")),
        1,
        &["BAD  rule: line 7 keeps all its connections"],
    );
}

/// What a program reads instead of a person.
#[test]
fn findings_as_json() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    for (words, status) in [
        ("--json -- redis-server", 0),
        ("--json -- no-such-program", 1),
        ("--json 4294967295", 1),
        ("--json", 0),
    ] {
        let finished = doctor(&place)
            .env("TMPDIR", place.folder())
            .args(words)
            .start()
            .wait();
        assert_eq!(finished.status.code(), Some(status), "{}", finished.output);
        let json: serde_json::Value = serde_json::from_str(&finished.output).expect("JSON");
        assert_eq!(json["problems"], if status == 0 { 0 } else { 1 }, "{json}");
        let bad = finished.output.contains("\"level\":\"bad\"");
        assert_eq!(bad, status != 0, "{json}");
        assert!(json["verdict"].is_string() && json["sections"][0]["findings"].is_array());
    }
}

/// What a program that starts here is told about system calls: it inherits the filter of a container, if there is one.
fn inherited_filter() -> &'static str {
    let status = fs::read_to_string("/proc/self/status").expect("status");
    let is_free = status.lines().any(|line| line == "Seccomp:\t0");
    match is_free {
        true => "ok   seccomp: no filter",
        false => "seccomp: a filter of system calls",
    }
}

/// A server and its client that hold two connections for as long as the test looks.
#[test]
fn processes() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both()).eager();
    let port = ports::free();
    let server = place
        .own(Side::Server, "echo_threads")
        .args(&format!("conns=2 port={port}"));
    let server = server.start().listening(port);
    let mut client = place
        .own(Side::Client, "idle")
        .args(&format!("port={port} conns=2 rounds=40 wait=poll"))
        .start();
    client.until("it is idle", |client| client.output().contains("idle"));
    let rows = top::rows(place.run_dir());
    assert!(rows.iter().all(|row| row.is_accelerated()), "{rows:?}");
    let ask = |pid: u32| doctor(&place).arg(pid.to_string()).start().wait();
    let is_well = [
        "libulsock_preload.so: loaded",
        inherited_filter(),
        "ok   limits: address space unlimited",
        "ok   namespaces: the same",
        "2 connections: shm\n",
        "ulsock is in it",
    ];
    for pid in [server.pid(), client.pid()] {
        assert_says(&ask(pid), 0, &is_well);
    }
    // One that was started without it, with a limit, elsewhere.
    let mut stranger = place.program(Side::Client, "unshare").without("LD_PRELOAD");
    stranger = stranger
        .args("--net sh -c")
        .arg("ulimit -v 4000000; exec sleep 100");
    let mut stranger = stranger.start();
    let is_sleep =
        |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|it| it == "sleep\n");
    stranger.until("it sleeps", |it| is_sleep(it.pid()));
    assert_says(
        &ask(stranger.pid()),
        1,
        &[
            "BAD  library: not loaded: the program was started without it",
            "start it anew with `ulsock run -- PROGRAM`",
            "BAD  limits: max address space 4096000000 bytes: lift that",
            "namespaces: others than this shell's (network)",
            "2 problems",
        ],
    );
}

/// A process that works on a connection with an io_uring, and one whose library is off.
#[test]
fn processes_on_the_kernel() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both()).eager();
    let code = "import ctypes, time; u = ctypes.CDLL('liburing.so.2'); u.io_uring_queue_init(8, ctypes.create_string_buffer(512), 0); \
                print('made', flush=True); time.sleep(100)";
    let mut uring = place
        .server("/usr/bin/python3")
        .arg("-c")
        .arg(code)
        .env("ULSOCK", "0")
        .start();
    uring.until("it has one", |it| it.output().contains("made"));
    let finished = doctor(&place).arg(uring.pid().to_string()).start().wait();
    assert_says(
        &finished,
        1,
        &[
            "io_uring: 1 of them",
            "tables: none",
            "BAD  off: by ULSOCK=0: all connections stay on kernel TCP",
            "program: /usr/bin/python3.",
        ],
    );
}

/// What a process has been given is not believed, nor shown as it is; and not every user can look into it.
#[test]
fn processes_of_others() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let hostile = "\x1b[2J\n  ok   fine: really";
    let mut odd = place
        .program(Side::Client, "sleep")
        .without("LD_PRELOAD")
        .arg("100");
    odd = odd.env("ULSOCK_RING", hostile);
    let mut odd = odd.start();
    odd.until("it sleeps", |it| {
        fs::read(format!("/proc/{}/environ", it.pid())).is_ok_and(|it| it.contains(&0x1b))
    });
    let finished = doctor(&place).arg(odd.pid().to_string()).start().wait();
    assert_says(
        &finished,
        1,
        &["BAD  variable: ULSOCK_RING", "mend or unset the variable"],
    );
    assert!(!finished.output.contains('\x1b') && !finished.output.contains("\n  ok   fine"));
    // The doctor of another user is told whose it is.
    let other = place.program(Side::Client, "setpriv").without("LD_PRELOAD");
    let other = other.args(&format!(
        "--reuid {STRANGER} --regid {STRANGER} --clear-groups"
    ));
    let copy = place.folder().join("ulsock");
    fs::copy(built("ulsock"), &copy).expect("a copy");
    let finished = other
        .arg(copy)
        .arg("doctor")
        .arg(odd.pid().to_string())
        .start()
        .wait();
    assert_says(
        &finished,
        1,
        &[
            "cannot be looked into",
            "run the doctor as uid 0 or as root",
        ],
    );
}
