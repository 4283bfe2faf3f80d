//! Real programs behave the same with the library as without it: output, status and diagnostics.
//! The rows are commands; `programs/` holds the scripts, which exercise the hooks by subject.

use std::path::Path;
use std::process::{Command, Output, Stdio};

#[path = "library/mod.rs"]
mod library;

const COMMANDS: &[&[&str]] = &[
    &["ls", "-l", "/usr/include"],
    &[
        "sh",
        "-c",
        "echo one | cat | wc -c; (exit 3); echo $?; exec true",
    ],
    &["sh", "-c", "ls /nonexistent"],
    &[
        "bash",
        "-c",
        "exec 5<>/dev/null; echo x >&5; cat <(echo substituted); kill -TERM $$",
    ],
    &["curl", "--version"],
    &["python3", "sockets.py"],
    &["python3", "waiting.py"],
    &["python3", "processes.py"],
    &["python3", "signals.py"],
    &["python3", "libc.py"],
];

fn run(command: &[&str], preload: Option<&Path>) -> Output {
    let mut child = Command::new(command[0]);
    child
        .args(&command[1..])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs"))
        .stdin(Stdio::null())
        .env_remove("LD_PRELOAD");
    if let Some(library) = preload {
        child.env("LD_PRELOAD", library);
    }
    child.output().expect("the program starts")
}

#[test]
fn programs_do_not_notice() {
    let library = library::build();
    for command in COMMANDS {
        let plain = run(command, None);
        let hooked = run(command, Some(&library));
        assert_eq!(hooked, plain, "{command:?}");
        assert!(
            !hooked.stdout.is_empty() || !hooked.stderr.is_empty(),
            "{command:?}"
        );
    }
}
