//! The live view: looks once a second, and draws after each look and each key.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::nicd::Status;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
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
        if is_pressed(left)?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
            && !keys::press(key, &mut live.screen, &live.model)
        {
            return Ok(());
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

/// A signal ends the wait.
fn is_pressed(left: Duration) -> io::Result<bool> {
    match event::poll(left) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        polled => polled,
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
