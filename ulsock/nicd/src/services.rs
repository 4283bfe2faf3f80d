//! Names of services, of this host and of others. What is said about them to other daemons or to a store, and heard, is in
//! [`telling`](super::telling) and [`posting`](super::posting).

mod board;
mod ours;
mod shared;
mod theirs;

use std::net::IpAddr;

use netstack::time::Instant;
use rendezvous::names::{Directory, Folder, Interest, Users, Watch};
use rendezvous::rundir::RunDir;
use rustix::io;

pub use board::{Board, Touch};
use ours::Ours;
use theirs::Theirs;

pub struct Services {
    pub watch: Watch,
    pub ours: Ours,
    /// As the other daemons tell; or a store does.
    pub theirs: Theirs,
    pub board: Option<Board>,
    /// When changes are heard again.
    pub resume_at: Option<Instant>,
    /// When the rest is heard of what a store has told.
    pub hear_board_at: Option<Instant>,
}

impl Services {
    /// `me`: where the other hosts reach this one.
    pub fn open(run_dir: RunDir, me: IpAddr) -> io::Result<Services> {
        // What a daemon before us has left.
        Folder::own(&run_dir)?.sweep();
        let directory = Directory::open(run_dir, Users::All)?;
        let interest = Interest {
            service: None,
            instances: 0..=u32::MAX,
        };
        let mut services = Services {
            watch: Watch::new(directory, interest)?,
            ours: Ours::default(),
            theirs: Theirs::default(),
            board: None,
            resume_at: None,
            hear_board_at: None,
        };
        // All that is there: of what the first daemon that we meet is not told at once, it thinks that it is gone.
        let namespace = services.watch.directory().namespace();
        while let Some(change) = services.watch.next_change()? {
            services.ours.take(&change, me, namespace);
        }
        Ok(services)
    }

    pub fn next_appointment(&self) -> Option<Instant> {
        let board = self.board.as_ref().and_then(|board| board.theirs.next());
        let pauses = self.resume_at.into_iter().chain(self.hear_board_at);
        pauses.chain(self.theirs.next()).chain(board).min()
    }
}
