//! The live view: looks once a second, and draws after each look and each key.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::nicd::Status;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use sockets::observe::Reach;

use super::history::History;
use super::model::Model;
use super::screen::Screen;
use super::{REFRESH, keys, view};
use crate::selection::Selection;

/// All that is drawn.
pub struct Live {
    pub model: Model,
    pub screen: Screen,
    pub history: History,
    pub links: Option<Arc<Status>>,
}

pub fn run(selection: &Selection, reach: &Reach, path: &Path) -> io::Result<()> {
    let links = Links::ask(path.to_owned())?;
    let is_to_end = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&is_to_end))?;
    }
    let ended = ratatui::try_init()
        .and_then(|mut terminal| follow(&mut terminal, selection, reach, &links, &is_to_end));
    // Also if only a part of it was set up.
    ratatui::try_restore()?;
    ended
}

fn follow(
    terminal: &mut DefaultTerminal,
    selection: &Selection,
    reach: &Reach,
    links: &Links,
    is_to_end: &AtomicBool,
) -> io::Result<()> {
    let mut live = Live {
        model: Model::default(),
        screen: Screen::new(),
        history: History::new(),
        links: None,
    };
    live.look(selection, reach, links);
    let mut next = Instant::now() + REFRESH;
    while !is_to_end.load(Ordering::Relaxed) {
        terminal.draw(|frame| view::draw(frame, &live))?;
        let left = next.saturating_duration_since(Instant::now());
        match wait_for_input(left)? {
            Input::Gone => return Ok(()),
            Input::Something => {
                if let Event::Key(key) = event::read()?
                    && key.kind != KeyEventKind::Release
                    && !keys::press(key, &mut live.screen, &live.model)
                {
                    return Ok(());
                }
            }
            Input::Nothing => {}
        }
        if Instant::now() >= next {
            if !live.screen.is_paused {
                live.look(selection, reach, links);
            }
            next = Instant::now() + REFRESH;
        }
    }
    Ok(())
}

/// What there is to read at the terminal.
enum Input {
    Nothing,
    Something,
    /// The terminal has been closed. Who asks crossterm then never hears from it again: it reads the end of the file in a loop.
    Gone,
}

/// A signal ends the wait.
fn wait_for_input(left: Duration) -> io::Result<Input> {
    // Without it crossterm reads the controlling terminal.
    if !io::stdin().is_terminal() {
        return heard(left);
    }
    // Keys that have come together are read one by one.
    for wait in [Duration::ZERO, left] {
        if is_terminal_gone(wait)? {
            return Ok(Input::Gone);
        }
        if let Input::Something = heard(Duration::ZERO)? {
            return Ok(Input::Something);
        }
    }
    Ok(Input::Nothing)
}

/// Waits until there is something at the terminal, or the size of its window changes.
fn is_terminal_gone(wait: Duration) -> io::Result<bool> {
    let stdin = io::stdin();
    let mut terminal = [PollFd::new(&stdin, PollFlags::IN)];
    let wait = Timespec::try_from(wait).unwrap_or_default();
    match rustix::event::poll(&mut terminal, Some(&wait)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let found = terminal[0].revents();
    Ok(found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL))
}

fn heard(wait: Duration) -> io::Result<Input> {
    match event::poll(wait) {
        Ok(true) => Ok(Input::Something),
        Ok(false) => Ok(Input::Nothing),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Input::Nothing),
        Err(error) => Err(error),
    }
}

impl Live {
    fn look(&mut self, selection: &Selection, reach: &Reach, links: &Links) {
        self.model.look(reach, selection);
        let connections = self.model.connections.iter();
        let live: Vec<_> = connections.map(|it| it.row.clone()).collect();
        self.history.look(reach, &live);
        self.links = links.status();
        self.screen.select(&self.model, 0);
    }
}

/// What the daemon says, asked beside: it may take its time.
struct Links {
    latest: Arc<Mutex<Option<Arc<Status>>>>,
}

impl Links {
    fn ask(run_dir: PathBuf) -> io::Result<Links> {
        let latest = Arc::new(Mutex::new(None));
        let answers = Arc::clone(&latest);
        std::thread::Builder::new().spawn(move || {
            loop {
                let status = ::nicd::ask(&run_dir).ok().map(Arc::new);
                *answers.lock().unwrap_or_else(PoisonError::into_inner) = status;
                std::thread::sleep(Duration::from_secs(1));
            }
        })?;
        Ok(Links { latest })
    }

    fn status(&self) -> Option<Arc<Status>> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.clone()
    }
}
