//! Names of services by a [store](super::store) that the hosts share: the daemon puts those of this host there, and writes
//! what it hears of others into the run directory, as it does with what daemons [tell](super::telling) each other otherwise.

use std::os::fd::AsFd;
use std::time::Duration;

use netstack::time::Instant;

use super::daemon::Nicd;
use super::entry::Entry;
use super::peer_messages::PeerMessage;
use super::say;
use super::services::{Board, Services, Touch};
use super::set::Source;
use super::status::StoreStatus;
use super::store::{Report, TTL};

/// Reports that are heard at a look, and the pause after so many.
const AT_ONCE: usize = 256;
const PAUSE: Duration = Duration::from_millis(1);

impl Nicd {
    /// Without the store, names are found on this host alone.
    pub(super) fn open_board(&mut self, services: &mut Services) {
        let Some(store) = self.store.take() else {
            return;
        };
        let me = self.me.control.ip();
        let title = store.title().to_owned();
        let opened = Board::open(store, me).and_then(|board| {
            self.set.add(Source::Board, board.reports.as_fd())?;
            Ok(board)
        });
        match opened {
            Ok(mut board) => {
                for named in services.ours.all() {
                    board.tell(&PeerMessage::Named(named), me);
                }
                services.board = Some(board);
            }
            Err(why) => say!("{title} cannot be used: {why}"),
        }
    }

    /// The store has told something.
    pub(super) fn hear_board(&mut self, time: Instant) {
        let Some(mut services) = self.services.take() else {
            return;
        };
        if let Some(board) = &mut services.board {
            board.reports.silence();
        }
        let mut heard = 0;
        while heard < AT_ONCE
            && let Some(report) = services.board.as_ref().and_then(|it| it.reports.next())
        {
            self.take_report(&mut services, report, time);
            heard += 1;
        }
        services.hear_board_at = (heard == AT_ONCE).then_some(time + PAUSE);
        self.services = Some(services);
    }

    fn take_report(&self, services: &mut Services, report: Report, time: Instant) {
        let directory = services.watch.directory();
        let Some(board) = &mut services.board else {
            return;
        };
        match report {
            Report::Start => board.theirs.start(),
            Report::Named(entry) if !self.is_believed(&entry) => {
                board.theirs.gone(&entry.label);
                self.complain(board, &format!("{:?}", entry.label), time);
            }
            Report::Named(entry) => {
                if !board.theirs.named(entry, directory) {
                    self.complain(board, "an entry too many", time);
                }
            }
            Report::Gone(label) => board.theirs.gone(&label),
            Report::Odd { key, of } => {
                of.iter().for_each(|label| board.theirs.gone(label));
                self.complain(board, &key, time);
            }
            Report::Complete => {
                board.theirs.complete(time);
                if board.set_touch(Touch::There) {
                    say!("names are in {}", board.title());
                }
            }
            Report::Lost { why, silence } => {
                board.theirs.lost(time, silence);
                if board.set_touch(Touch::Lost(why.clone())) {
                    let seconds = TTL.as_secs();
                    let title = board.title();
                    say!(
                        "{title} is out of reach, names of other hosts go after {seconds} s: {why}"
                    );
                }
            }
        }
    }

    /// The peers file says which addresses a host has; one that is not there has only that of its name.
    fn is_believed(&self, entry: &Entry) -> bool {
        let host = entry.label.host();
        let behind = self.peers.behind(entry.address.ip());
        match behind.and_then(|peer| self.peers.get(peer)) {
            Some(peer) => host == Some(peer.control.ip().to_canonical()),
            None => host == Some(entry.address.ip()),
        }
    }

    fn complain(&self, board: &mut Board, what: &str, time: Instant) {
        if board.ignore(time) {
            say!("{}: ignored: {what}", board.title());
        }
    }

    pub(super) fn store_status(&self) -> Option<StoreStatus> {
        let board = self.services.as_ref()?.board.as_ref()?;
        Some(StoreStatus {
            title: board.title().to_owned(),
            in_touch: board.touch == Touch::There,
            why: match &board.touch {
                Touch::Lost(why) => why.clone(),
                _ => String::new(),
            },
            ours: board.ours(),
            theirs: board.theirs.count(),
            ignored: board.ignored,
        })
    }
}
