//! What is printed of a conversation that is not as it should be: the state of both ends.

use std::fs;
use std::process::Command;
use std::sync::atomic::Ordering;

use super::board::Board;
use super::scene::Scene;
use crate::{place, procfs, top};

/// Prints all that is known of conversation `id`.
pub fn print(scene: &Scene, board: Board, id: u64) {
    let mut pids = Vec::new();
    for (slot, side) in board.pair(id).iter().zip(["caller", "called"]) {
        println!("{side}: {}", slot.text());
        pids.push(slot.pid.load(Ordering::Acquire) as u32);
    }
    for pid in pids {
        if pid != 0 && !procfs::is_gone(pid) {
            process(scene, pid);
        }
    }
}

/// Prints all that is known of a process.
pub fn process(scene: &Scene, pid: u32) {
    println!("---- process {pid}\n{}", procfs::system_calls(pid));
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    for variable in environment.split(|byte| *byte == 0) {
        if variable.starts_with(b"ULSOCK_") {
            println!("{}", String::from_utf8_lossy(variable));
        }
    }
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    for task in tasks.flatten() {
        for file in ["wchan", "stack"] {
            let text = fs::read_to_string(task.path().join(file)).unwrap_or_default();
            println!("{:?} {file}: {}", task.file_name(), text.trim_end());
        }
    }
    for fd in fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten()
    {
        println!("fd {:?}: {:?}", fd.file_name(), fs::read_link(fd.path()));
    }
    let rows = top::text(scene.run_dir());
    let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).unwrap_or_default();
    for row in rows.iter().filter(|row| row["pid"] == pid) {
        println!("{row}");
    }
    say(scene
        .ulsock(&["doctor", &pid.to_string()])
        .stdout(std::process::Stdio::piped()));
    for log in fs::read_dir(scene.path("")).into_iter().flatten().flatten() {
        if log.path().extension().is_some_and(|ending| ending == "err") {
            place::print_tail(&log.path());
        }
    }
    let pid = pid.to_string();
    let words = [
        "20",
        "gdb",
        "-p",
        &pid,
        "-batch",
        "-ex",
        "thread apply all bt 12",
    ];
    say(Command::new("timeout").args(words));
}

fn say(command: &mut Command) {
    match command.output() {
        Ok(output) => println!("{}", String::from_utf8_lossy(&output.stdout)),
        Err(error) => println!("{command:?}: {error}"),
    }
}
