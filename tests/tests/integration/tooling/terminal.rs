//! `ulsock top` as a user sees it in a terminal.

use std::process::{Command, Stdio};

use tests::ends::{Ends, kernel_only};
use tests::place::Place;
use tests::program::built;
use tests::wait;

use super::observed::Pair;

/// A terminal of its own, by tmux.
struct Terminal {
    socket: String,
}

impl Terminal {
    fn start(place: &Place, [width, height]: [&str; 2], command: &str) -> Terminal {
        let socket = place.folder().join("tmux").display().to_string();
        let terminal = Terminal { socket };
        let run_dir = format!("ULSOCK_RUN_DIR={}", place.run_dir().display());
        let words = ["-x", width, "-y", height, "-e", &run_dir, command];
        terminal.tmux(&[&["-f", "/dev/null", "new-session", "-d"], &words[..]].concat());
        terminal
    }

    fn tmux(&self, words: &[&str]) -> String {
        let tmux = Command::new("tmux")
            .args(["-S", &self.socket])
            .args(words)
            .env_remove("TMUX")
            .stdin(Stdio::null())
            .output()
            .expect("tmux runs");
        String::from_utf8_lossy(&tmux.stdout).into_owned()
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn shows(&self, texts: &[&str]) {
        let mut last = String::new();
        let what = format!("the terminal shows {texts:?}");
        wait::until(&what, || {
            last = self.tmux(&["capture-pane", "-p"]);
            texts.iter().all(|text| last.contains(text))
        });
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// As a user looks at it: the parts, a detail with its history, a filter, the help, the end.
#[test]
fn top_in_a_terminal() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::Both);
    let pair = Pair::start(&place);
    let top = format!("{} top; sleep 60", built("ulsock").display());
    let terminal = Terminal::start(&place, ["180", "40"], &top);
    terminal.shows(&[
        "2 programs, 6 connections: 6 shm",
        "idle",
        "echo_epoll",
        "RING FILL",
    ]);
    terminal.press(&["Enter"]);
    terminal.shows(&[
        "sends by shm, receives by shm",
        "opened",
        "promoted",
        "(before: kernel)",
    ]);
    terminal.press(&["Escape"]);
    terminal.press(&["/", "i", "d", "l", "e", "Enter"]);
    terminal.shows(&["filter idle", "shm"]);
    terminal.press(&["2", "Enter"]);
    terminal.shows(&["- idle", "127.0.0.1", "RUNS IN"]);
    terminal.press(&["3"]);
    terminal.shows(&["no nicd runs here"]);
    terminal.press(&["4"]);
    terminal.shows(&["promoted to shm", "ON KERNEL TCP BECAUSE"]);
    terminal.press(&["?"]);
    terminal.shows(&["sort by the next column"]);
    terminal.press(&["q"]);
    wait::until("it has left the terminal as it was", || {
        !terminal
            .tmux(&["capture-pane", "-p"])
            .contains("ulsock top")
    });
    drop(terminal);
    pair.end();
}

/// As many terminals begin: what matters most is there, and nothing of it is cut off.
#[test]
fn top_in_a_narrow_terminal() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::Both);
    let pair = Pair::start(&place);
    let top = format!("{} top; sleep 60", built("ulsock").display());
    let terminal = Terminal::start(&place, ["80", "24"], &top);
    terminal.shows(&["PROGRAM", "LOCAL", "PEER", "CARRIER", "OUT/S", "REASON"]);
    terminal.shows(&["% in vain", "echo_epoll"]);
    let screen = terminal.tmux(&["capture-pane", "-p"]);
    let idle = screen.lines().find(|line| line.starts_with("idle "));
    let idle: Vec<_> = idle.expect("the client").split_whitespace().collect();
    let addresses = idle
        .iter()
        .filter(|it| it.parse::<std::net::SocketAddr>().is_ok());
    assert_eq!(addresses.count(), 2, "{screen}");
    assert!(idle.contains(&"shm"), "{screen}");
    terminal.press(&["2"]);
    terminal.shows(&["PROGRAM", "+ idle", "+ echo_epoll", "LIVE", "OUT/S"]);
    drop(terminal);
    pair.end();
}
