//! The configuration file: rules by program, user and port, what comes before what, and a file that cannot be used.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::ends::{Ends, Side, kernel_only};
use tests::place::{Place, Rings};
use tests::ports;
use tests::program::{Finished, Program, built};

const FOREIGNER: u32 = 65_534;

/// A file that every program may believe.
fn file(place: &Place, text: &str) -> PathBuf {
    let path = place.folder().join("ulsock.toml");
    fs::write(&path, text).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("its mode");
    path
}

fn configured(place: Place, text: &str) -> Place {
    let path = file(&place, text);
    place.with("ULSOCK_CONFIG_FILE", path.display())
}

/// A redis on each of two ports, started by this name, and clients of both.
fn redis(place: &Place, ports: [u16; 2], name: &str) {
    let servers = ports.map(|port| {
        let server = place.server(name).args(&format!("--port {port} --dir"));
        let server = server.arg(place.folder()).args("--save").arg("");
        server.start().listening(port)
    });
    for port in ports {
        let benchmark = place.client("redis-benchmark");
        let options = format!("-p {port} -q -n 3000 -c 4 -t set,get");
        let output = benchmark.args(&options).run();
        assert!(output.contains("GET"), "{output}");
        let cli = place.client("redis-cli");
        cli.args(&format!("-p {port} shutdown nosave")).run();
    }
    for server in servers {
        server.succeed();
    }
}

fn reasons(place: &Place, side: Side, reason: &str) -> u64 {
    place
        .report(side)
        .0
        .reasons
        .get(reason)
        .copied()
        .unwrap_or(0)
}

/// The port of redis is the kernel's for the program that connects; nothing else is, and the server has no rule at all.
#[test]
fn a_rule_for_a_port_of_one_program() {
    if kernel_only() {
        return;
    }
    let ports = [ports::free(), ports::free()];
    let text = format!(
        "[[rule]]\nprogram = ['redis-bench*', 'no-such-program']\nport = ['{0}-{0}', 1]\naddress = '127.0.0.0/8'\n\
         direction = 'connect'\ncarrier = 'kernel'\n",
        ports[0]
    );
    let place = configured(Place::new(Ends::both()), &text);
    redis(&place, ports, "redis-server");
    place.check_quiet();
    assert!(
        reasons(&place, Side::Client, "rule") > 0,
        "{:?}",
        place.report(Side::Client)
    );
    assert_eq!(reasons(&place, Side::Server, "rule"), 0);
    // None for the other port.
    let (client, _) = place.report(Side::Client);
    assert!(client.upgraded > 0 && client.ring_bytes() > 0, "{client:?}");
}

/// Of two Unix sockets of one server the rule names one, by a pattern.
#[test]
fn a_rule_for_a_unix_socket() {
    if kernel_only() {
        return;
    }
    let text = "[[rule]]\npath = ['@none', '*/kept.sock']\ncarrier = 'kernel'\n";
    for (name, is_kept) in [("kept.sock", true), ("free.sock", false)] {
        let place = configured(Place::new(Ends::both()), text);
        let socket = place.folder().join(name);
        let server = place.server("redis-server").args("--port 0 --dir");
        let server = server.arg(place.folder()).args("--save").arg("");
        let server = server.args("--unixsocket").arg(&socket).start();
        let server = server.listening_at(&socket);
        let benchmark = place.client("redis-benchmark").args("-s").arg(&socket);
        let output = benchmark.args("-q -n 3000 -c 4 -t set,get").run();
        assert!(output.contains("GET"), "{output}");
        let cli = place.client("redis-cli").args("-s").arg(&socket);
        cli.args("shutdown nosave").run();
        server.succeed();
        place.check_quiet();
        for side in [Side::Server, Side::Client] {
            let report = place.report(side).0;
            assert_eq!(report.ring_bytes() == 0, is_kept, "{name}: {report:?}");
            assert_eq!(reasons(&place, side, "rule") > 0, is_kept, "{report:?}");
        }
    }
}

/// By the name under which it was started: the file behind redis-server may have another.
#[test]
fn a_rule_for_a_program() {
    if kernel_only() {
        return;
    }
    let ports = [ports::free(), ports::free()];
    let text = "[[rule]]\nprogram = '*/redis-server'\nuser = ['root', 12345]\ncarrier = 'kernel'\n";
    let place = configured(Place::new(Ends::both()), text);
    redis(&place, ports, "/usr/bin/redis-server");
    place.check_quiet();
    assert!(
        reasons(&place, Side::Server, "rule") > 0,
        "{:?}",
        place.report(Side::Server)
    );
    assert_eq!(reasons(&place, Side::Client, "rule"), 0);
}

/// Two ends with a connection each, and how their reports begin.
fn echo(place: &Place) {
    let port = ports::free();
    let start = |side, name, arguments: &str| {
        let program = place.own(side, name).args(arguments);
        program.args(&format!("port={port}")).start()
    };
    let server = start(Side::Server, "echo_threads", "conns=3").listening(port);
    start(Side::Client, "echo_client", "conns=3 rounds=100").succeed();
    server.succeed();
}

#[test]
fn the_environment_comes_before_the_file() {
    if kernel_only() {
        return;
    }
    let text = "[defaults]\nenabled = false\nupgrade_after = 1000000\n[[rule]]\nprogram = 'echo_client'\ncarrier = 'off'\n";
    let off = configured(Place::new(Ends::both()), text);
    echo(&off);
    off.check_quiet();
    assert_eq!(
        off.report(Side::Server).1,
        0,
        "no report of a program in which it is off"
    );
    let on = configured(Place::new(Ends::both()), text)
        .with("ULSOCK", 1)
        .eager();
    echo(&on);
    on.check(Rings::Some);
}

/// For one of two programs ulsock is off, for the other on, without a variable.
#[test]
fn a_program_is_turned_on() {
    if kernel_only() {
        return;
    }
    let text = "[defaults]\nenabled = false\n[[rule]]\nprogram = 'echo_threads'\ncarrier = 'on'\n";
    let place = configured(Place::new(Ends::both()), text);
    echo(&place);
    place.check_quiet();
    assert_eq!(
        (place.report(Side::Server).1, place.report(Side::Client).1),
        (1, 0)
    );
}

/// Nothing of it counts, and nobody hears of it who has not asked.
#[test]
fn a_file_that_cannot_be_used() {
    if kernel_only() {
        return;
    }
    let bad = "[defaults]\nenabled = false\nring = 'large'\n";
    let place = configured(Place::new(Ends::both()), bad).eager();
    echo(&place);
    place.check(Rings::Some);
    let place = configured(Place::new(Ends::both()), bad).with("ULSOCK_LOG", "info");
    let finished = place
        .own(Side::Client, "self_talk")
        .args(&format!("port={} rounds=3 bytes=9", ports::free()));
    let finished = finished.start().wait();
    assert!(finished.status.success(), "{}", finished.errors);
    let said: Vec<&str> = finished.errors.lines().collect();
    let wanted = "line 3: ring: cannot use \"large\": give a number of bytes";
    assert!(said.len() == 1 && said[0].contains(wanted), "{said:?}");
}

fn command(place: &Place, words: &str, path: &Path) -> Finished {
    let program = Program::new(built("ulsock"), &place.folder().join("command"));
    let program = program.without_ulsock().args(words);
    let program = program.env("ULSOCK_RUN_DIR", place.run_dir());
    program.env("ULSOCK_CONFIG_FILE", path).start().wait()
}

/// `ulsock run` starts nothing with it, and the doctor names the line and the cure.
#[test]
fn the_command_refuses_a_file() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let path = file(
        &place,
        "[defaults]\nring = 65536\n\n[[rule]]\nprogramm = 'redis'\n",
    );
    let misspelt = "ulsock.toml, line 5: no such name: programm (known: program, user";
    let check = |said: &str| {
        let run = command(&place, "run -- echo started", &path);
        assert_eq!(
            (run.status.code(), run.output.as_str()),
            (Some(2), ""),
            "{}",
            run.errors
        );
        assert!(run.errors.contains(said), "{}", run.errors);
        let doctor = command(&place, "doctor -- true", &path);
        assert_eq!(doctor.status.code(), Some(1));
        assert!(doctor.output.contains(&format!(
            "BAD  file: {}",
            path.parent().expect("a folder").display()
        )));
        assert!(doctor.output.contains(said), "{}", doctor.output);
    };
    check(misspelt);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("chmod");
    check("can be written by others: forbid that (chmod go-w)");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("chmod");
    chown(&path, Some(FOREIGNER), None).expect("chown");
    check("belongs to uid 65534: give it to root");
    fs::remove_file(&path).expect("remove");
    check("cannot be opened");
    let none = command(&place, "run -- echo started", Path::new("none"));
    assert_eq!(none.output, "started\n", "{}", none.errors);
}

/// Opens of the file in its usual place, as the kernel sees them.
#[test]
fn without_a_file_that_is_one_open() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let trace = place.folder().join("trace");
    let preload = format!("LD_PRELOAD={}", built("libulsock_preload.so").display());
    let status = Command::new("strace")
        .arg("-o")
        .arg(&trace)
        .args([
            "-E",
            &preload,
            "-e",
            "trace=open,openat,readlink,readlinkat",
            "true",
        ])
        .env_remove("LD_PRELOAD")
        .status();
    assert!(status.expect("strace").success());
    let text = fs::read_to_string(&trace).expect("a trace");
    let ours = |line: &&str| line.contains("ulsock.toml") || line.contains("/proc/self/exe");
    let ours: Vec<&str> = text.lines().filter(ours).collect();
    let is_there = Path::new("/etc/ulsock.toml").exists();
    assert!(
        is_there || ours.len() == 1 && ours[0].contains("ENOENT"),
        "{ours:?}"
    );
}

/// A mount namespace in which /etc has this file and the users.
const IN_ANOTHER_ETC: &str = r#"
set -e
mount --make-rprivate /
cp /etc/passwd "$1/passwd"
mount --bind "$1" /etc
shift
exec "$@"
"#;

#[test]
fn the_usual_place() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let etc = place.folder().join("etc");
    fs::create_dir(&etc).expect("etc");
    let report = place.folder().join("report");
    let text = format!(
        "[[rule]]\nprogram = 'self_talk'\nuser = 'root'\ncarrier = 'kernel'\nreport = '{}'\nrun_dir = '{}'\n",
        report.display(),
        place.run_dir().display()
    );
    fs::write(etc.join("ulsock.toml"), text).expect("a file");
    fs::set_permissions(etc.join("ulsock.toml"), fs::Permissions::from_mode(0o600)).expect("chmod");
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", IN_ANOTHER_ETC, "sh"])
        .arg(&etc)
        .arg("env");
    command.arg(format!(
        "LD_PRELOAD={}",
        built("libulsock_preload.so").display()
    ));
    command.arg(built("self_talk")).args([
        &format!("port={}", ports::free()),
        "rounds=60",
        "bytes=9",
    ]);
    command.env_remove("LD_PRELOAD").env("ULSOCK", "1");
    let output = command.output().expect("unshare");
    assert!(output.status.success(), "{output:?}");
    let told = fs::read_to_string(&report).expect("a report");
    assert!(told.contains("\"rule\":2"), "{told}");
}
