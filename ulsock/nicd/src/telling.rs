//! Names of services between hosts: the daemon hears of those that programs of this host register, and tells the other daemons;
//! and it writes theirs into the run directory, where programs find them as if they were of this host. Where the hosts have a
//! store, nothing is told: see [`posting`](super::posting).

use std::os::fd::AsFd;
use std::time::Duration;

use netstack::time::Instant;

use super::daemon::Nicd;
use super::peer_messages::PeerMessage;
use super::say;
use super::services::Services;
use super::set::Source;

/// Changes that are heard at a look, and the pause after so many: any user can change names as fast as it likes.
const AT_ONCE: usize = 64;
const PAUSE: Duration = Duration::from_millis(10);

impl Nicd {
    /// As the user that we remain: programs believe us according to that. Without names, connections go on.
    pub(super) fn open_services(&mut self) {
        let opened = self.door.run_dir();
        let me = self.me.control.ip();
        let opened = opened.and_then(|run_dir| Services::open(run_dir, me));
        let opened = opened.and_then(|mut services| {
            self.set.add(Source::Names, services.watch.as_fd())?;
            self.open_board(&mut services);
            Ok(services)
        });
        match opened {
            Ok(services) => self.services = Some(services),
            Err(why) => say!("tells no names: {why}"),
        }
    }

    /// Names of this host have changed: the other daemons are told.
    pub(super) fn hear_names(&mut self, time: Instant) {
        let me = self.me.control.ip();
        let Some(services) = &mut self.services else {
            return;
        };
        let namespace = services.watch.directory().namespace();
        let (mut news, mut heard) = (Vec::new(), 0);
        while heard < AT_ONCE {
            match services.watch.next_change() {
                Ok(Some(change)) => news.extend(services.ours.take(&change, me, namespace)),
                Ok(None) => break,
                Err(why) => {
                    say!("tells no more names: {why}");
                    self.services = None;
                    return;
                }
            }
            heard += 1;
        }
        if heard == AT_ONCE {
            self.set.remove(services.watch.as_fd());
            services.resume_at = Some(time + PAUSE);
        }
        if let Some(board) = &mut services.board {
            news.iter().for_each(|message| board.tell(message, me));
            return;
        }
        for host in self.others() {
            for message in &news {
                if self.hosts[host].is_in_touch() {
                    self.tell(host, *message, time);
                }
            }
        }
    }

    /// Everything, to one that we have just met.
    pub(super) fn tell_names(&mut self, host: usize, time: Instant) {
        let Some(services) = self.services.as_ref().filter(|it| it.board.is_none()) else {
            return;
        };
        let names = services.ours.all().map(PeerMessage::Named);
        let messages: Vec<PeerMessage> = names.chain([PeerMessage::NamesTold]).collect();
        for message in messages {
            if self.hosts[host].is_in_touch() {
                self.tell(host, message, time);
            }
        }
    }

    /// Of another host. It can tell of its own addresses only.
    pub(super) fn hear_of_name(&mut self, host: usize, message: PeerMessage) {
        let control = self.control(host).ip().to_canonical();
        let is_its_own = |ip| self.behind(ip) == Some(host);
        let believed = match message {
            PeerMessage::Named(named) => is_its_own(named.address.ip()),
            _ => true,
        };
        let services = self.services.as_mut().filter(|it| it.board.is_none());
        let Some(services) = services.filter(|_| believed) else {
            return;
        };
        let (theirs, directory) = (&mut services.theirs, services.watch.directory());
        match message {
            PeerMessage::Named(named) => theirs.named(host, control, named, directory),
            PeerMessage::Unnamed { id } => theirs.unnamed(host, id),
            _ => theirs.all_told(host),
        }
    }

    /// There is no word from that host for now.
    pub(super) fn lose_names(&mut self, host: usize, time: Instant) {
        if let Some(services) = &mut self.services {
            services.theirs.lose(host, time);
        }
    }

    pub(super) fn tend_names(&mut self, time: Instant) {
        let Some(services) = &mut self.services else {
            return;
        };
        services.theirs.tend(time);
        if let Some(board) = &mut services.board {
            board.theirs.tend(time);
        }
        let hears_board = services.hear_board_at.is_some_and(|at| at <= time);
        if services.resume_at.is_some_and(|at| at <= time) {
            services.resume_at = None;
            let _ = self.set.add(Source::Names, services.watch.as_fd());
            self.hear_names(time);
        }
        if hears_board {
            self.hear_board(time);
        }
    }
}
