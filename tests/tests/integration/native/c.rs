//! Programs in C: installed as a user would install the library, compiled with pkg-config, on one host and on two.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tests::ends::{Ends, Side, kernel_only};
use tests::hosts::Hosts;
use tests::place::Place;
use tests::program::{Program, Running};

/// The examples of the library, and how each says who it is.
const PAIRS: [[&str; 3]; 4] = [
    ["streams", "server", "client"],
    ["messages", "server", "client"],
    ["requests", "server", "client"],
    ["memory", "exporter", "importer"],
];

/// Where the library is installed, with the compiled examples in `bin`. Removed by nobody: each run has its own in the build
/// folder, which the next one replaces.
fn installed() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let prefix = top().join("target/c-test");
        let _ = fs::remove_dir_all(&prefix);
        run(Command::new(library().join("install")).arg(&prefix));
        let programs = prefix.join("bin");
        fs::create_dir_all(&programs).expect("a folder");
        for name in PAIRS.iter().map(|pair| pair[0]).chain(["group"]) {
            let source = library().join("examples").join(name).with_extension("c");
            compile(&prefix, &source, &programs.join(name), Linked::Shared);
        }
        prefix
    })
}

fn top() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the workspace").to_owned()
}

fn library() -> PathBuf {
    top().join("ulsock/c")
}

fn run(command: &mut Command) -> String {
    let output = command.env_remove("LD_PRELOAD").output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Linked {
    Shared,
    Static,
}

fn compile(prefix: &Path, source: &Path, program: &Path, linked: Linked) {
    let mut ask = Command::new("pkg-config");
    ask.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let flags = match linked {
        Linked::Shared => run(ask.args(["--cflags", "--libs", "ulsock"])),
        // The archive by its name: the linker would prefer the shared library.
        Linked::Static => {
            let flags = run(ask.args(["--cflags", "--libs", "--static", "ulsock"]));
            flags.replace("-lulsock", "-l:libulsock.a")
        }
    };
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-I"]);
    compiler.arg(library().join("examples"));
    compiler.arg("-o").arg(program).arg(source);
    run(compiler.args(flags.split_whitespace()));
}

fn in_place(place: &Place, side: Side, path: &Path, words: &str) -> Program {
    let program = place.program(side, path).without("LD_PRELOAD");
    let program = program.env("LD_LIBRARY_PATH", installed().join("lib"));
    let program = match place.ends().covers(side) {
        true => program.env("ULSOCK_RUN_DIR", place.run_dir()),
        // Names need no rings.
        false => program
            .env("ULSOCK_RUN_DIR", place.run_dir())
            .env("ULSOCK_EXCLUDE", "0.0.0.0/0"),
    };
    program.args(words)
}

fn on_host(hosts: &Hosts, host: usize, name: &str, words: &str) -> Program {
    let path = installed().join("bin").join(name);
    let program = hosts.program(host, path).without("LD_PRELOAD");
    let program = program.env("LD_LIBRARY_PATH", installed().join("lib"));
    program.args(words)
}

/// The second talks to the first until both have seen what they expect.
fn talk(server: Program, client: Program, name: &str) {
    let mut server = server.start();
    server.prints("ready");
    let said = client.run();
    assert!(said.ends_with("done\n"), "{name}: {said}");
    match name {
        "memory" => assert_eq!(server.succeed(), "ready\ndone\n"),
        _ => drop(server.stop(libc::SIGKILL)),
    }
}

#[test]
fn examples_on_one_host() {
    for ends in [Ends::both(), Ends::Kernel] {
        let place = Place::new(ends).eager();
        for [name, first, second] in PAIRS {
            let path = installed().join("bin").join(name);
            let server = in_place(&place, Side::Server, &path, &format!("{first} 127.0.0.1:0"));
            let client = in_place(&place, Side::Client, &path, second);
            talk(server, client, name);
        }
        let group = installed().join("bin/group");
        let member = || in_place(&place, Side::Server, &group, "127.0.0.1:0 4 3000").start();
        finish((0..4).map(|_| member()).collect());
    }
}

fn finish(members: Vec<Running>) {
    for member in members {
        let said = member.succeed();
        assert!(said.starts_with("done with "), "{said}");
    }
}

#[test]
fn examples_on_two_hosts() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::two().eager();
    for [name, first, second] in PAIRS {
        let words = format!("{first} 0.0.0.0:0 {}", hosts.host(0).address());
        let words = match name {
            "memory" => words,
            _ => format!("{first} 0.0.0.0:0"),
        };
        let server = on_host(&hosts, 0, name, &words);
        talk(server, on_host(&hosts, 1, name, second), name);
    }
    let member = |at: usize| on_host(&hosts, at % 2, "group", "0.0.0.0:0 4 3000").start();
    finish((0..4).map(member).collect());
}

/// A program that needs no library when it runs.
#[test]
fn the_static_library() {
    let place = Place::new(Ends::both()).eager();
    let path = place.folder().join("requests");
    let source = library().join("examples/requests.c");
    compile(installed(), &source, &path, Linked::Static);
    let needed = run(Command::new("ldd").arg(&path));
    assert!(!needed.contains("ulsock"), "{needed}");
    let start = |side, words| in_place(&place, side, &path, words);
    let server = start(Side::Server, "server 127.0.0.1:0");
    talk(server, start(Side::Client, "client"), "requests");
}

/// What a program may do wrong, and what is left of it at its ends.
#[test]
fn mistakes_and_ends() {
    let place = Place::new(Ends::both()).eager();
    for name in ["libulsock_edges", "libulsock_ends", "libulsock_stacks"] {
        let source = top().join("tests/c").join(name).with_extension("c");
        let path = place.folder().join(name);
        compile(installed(), &source, &path, Linked::Shared);
        assert_eq!(in_place(&place, Side::Server, &path, "").run(), "done\n");
    }
}

/// Programs in C++ can use the header, too, with every warning.
#[test]
fn the_header_in_other_languages() {
    let header = installed().join("include/ulsock.h");
    for (language, standard) in [
        ("c", "c99"),
        ("c", "c2x"),
        ("c++", "c++11"),
        ("c++", "c++20"),
    ] {
        let mut compiler = Command::new("cc");
        compiler.args(["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
        compiler
            .arg(format!("-std={standard}"))
            .arg("-x")
            .arg(language);
        run(compiler.arg(&header));
    }
}

/// The chapter's example.
#[test]
fn the_example_of_the_chapter() {
    let place = Place::new(Ends::both()).eager();
    let chapter = fs::read_to_string(top().join("docs/native.md")).expect("the chapter");
    let code = chapter
        .split("```c\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let source = place.folder().join("example.c");
    fs::write(&source, code.expect("an example")).expect("a file");
    let path = place.folder().join("example");
    compile(installed(), &source, &path, Linked::Shared);
    assert_eq!(
        in_place(&place, Side::Server, &path, "").run(),
        "3 + 4 = 7\n"
    );
}
