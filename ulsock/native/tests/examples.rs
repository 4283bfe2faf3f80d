//! Each example runs to its end, on rings and on kernel TCP.

use std::path::PathBuf;
use std::process::Command;

/// Cargo builds the examples beside the tests.
fn example(name: &str) -> PathBuf {
    let running = std::env::current_exe().expect("a test has a path");
    let profile = running.parent().and_then(|deps| deps.parent());
    let path = profile
        .expect("target/PROFILE/deps")
        .join("examples")
        .join(name);
    assert!(path.exists(), "{} is not built", path.display());
    path
}

fn runs(name: &str, args: &[&str], says: &str) {
    for on in ["1", "0"] {
        let folder = tempfile::tempdir().expect("a folder");
        let output = Command::new(example(name))
            .args(args)
            .env("ULSOCK", on)
            .env("ULSOCK_RUN_DIR", folder.path().join("run"))
            .env("ULSOCK_UPGRADE_AFTER", "1")
            .output()
            .expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ULSOCK={on}: {errors}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(says), "ULSOCK={on}: {said}{errors}");
    }
}

#[test]
fn under_tokio() {
    runs("tokio", &[], "echoes");
}

#[test]
fn under_smol() {
    runs("smol", &[], "echoes");
}

#[test]
fn one_executor_per_core() {
    runs("cores", &[], "echoes");
}

/// Three processes, with messages and with sockets: all find the same heat, or it fails.
#[test]
fn a_parallel_program() {
    runs("stencil", &["64", "100", "3"], "messages: ");
}
