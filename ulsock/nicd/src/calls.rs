//! The channels to the daemons of other hosts. Both sides call, one call at a time; whoever proves last who it is has
//! the channel, and of two calls that cross each other the one of the lower address.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use netstack::time::Instant;
use rustix::io::Errno;

use super::caller::Caller;
use super::daemon::Nicd;
use super::door::is_want;
use super::host::Theirs;
use super::peer_messages::{PeerMessage, VERSION};
use super::say;
use super::secure::{Closed, Secure, dial};
use super::set::Source;

/// Callers from one address that have not proved who they are; and from all, for each peer and beside that.
const MOST_CALLERS: usize = 64;
const CALLERS_EACH: usize = 4;
/// Our own calls that are under way. A thousand at once would all be answered too late.
const MOST_CALLS: usize = 64;
/// Until the next ones.
const CALL_PAUSE: Duration = Duration::from_millis(10);
/// With more peers than that no link is tried before it is needed.
const MOST_GREETED: usize = 64;
/// Calls that are taken at a look.
const MOST_AT_ONCE: usize = 16;
/// The one with the higher address leaves the first call to the other.
const COURTESY: Duration = Duration::from_millis(500);

impl Nicd {
    /// At the start: everybody is called.
    pub(super) fn begin(&mut self, time: Instant) {
        let me = self.me.control;
        let others = self.others();
        say!("listening at {me}, {} other hosts", others.len());
        for host in others {
            let first = me < self.control(host);
            let pause = if first { Duration::ZERO } else { COURTESY };
            self.hosts[host].call_at = Some(time + pause);
        }
    }

    pub(super) fn tend_hosts(&mut self, time: Instant) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= time);
        for host in self.others() {
            if due(self.hosts[host].call_at) && self.stop_by.is_none() {
                match self.calls_under_way() < MOST_CALLS {
                    true => self.call(host, time),
                    false => self.hosts[host].call_at = Some(time + CALL_PAUSE),
                }
            }
            if due(self.hosts[host].try_at) {
                self.hosts[host].try_at = None;
                if self.hosts[host].is_in_touch() && self.stop_by.is_none() {
                    self.reach(host, time);
                }
            }
        }
    }

    fn call(&mut self, host: usize, time: Instant) {
        self.hosts[host].call_at = None;
        let Some(peer) = &self.hosts[host].peer else {
            return;
        };
        if self.hosts[host].channel.is_some() || self.is_calling(host) {
            return;
        }
        let called = dial(&self.me, peer).and_then(|stream| {
            Secure::connect(stream, &self.identity, peer, std::time::Instant::now())
        });
        let called = called.and_then(|channel| self.add_caller(channel, Some(host)));
        if let Err(why) = called {
            self.called_in_vain(host, &why.to_string(), time);
        }
    }

    fn calls_under_way(&self) -> usize {
        let callers = self.callers.values();
        callers.filter(|caller| caller.called.is_some()).count()
    }

    /// It has its time to answer: a host may be slow, or far away.
    fn is_calling(&self, host: usize) -> bool {
        let mut callers = self.callers.values();
        callers.any(|caller| caller.called == Some(host))
    }

    /// Said once, and not for every try.
    fn called_in_vain(&mut self, host: usize, why: &str, time: Instant) {
        if self.hosts[host].channel.is_some() {
            return;
        }
        let longest = self.longest_pause();
        self.hosts[host].call_later(time, longest);
        if self.hosts[host].unheard.as_deref() != Some(why) {
            let title = self.title(host);
            say!("{title}: cannot be called: {why} (does nicd run there? is TCP to it allowed?)");
            self.hosts[host].unheard = Some(why.to_owned());
        }
    }

    /// Until it has proved who it is, a channel is only a caller.
    fn add_caller(&mut self, channel: Secure, called: Option<usize>) -> io::Result<()> {
        if called.is_none() {
            self.make_room_for_a_stranger(channel.expected());
        }
        let number = self.number();
        let source = Source::Caller(number);
        self.set.watch(source, channel.fd(), true)?;
        self.callers.insert(number, Caller { channel, called });
        Ok(())
    }

    /// The oldest goes: any user of a peer's host can call from its address, and say nothing. A true caller needs one round
    /// trip. So nobody keeps out others than those of its own host, until there are very many.
    fn make_room_for_a_stranger(&mut self, from: usize) {
        let mut by_peer: HashMap<usize, Vec<u32>> = HashMap::new();
        let mut all = 0;
        for (number, caller) in &self.callers {
            if caller.called.is_none() {
                by_peer
                    .entry(caller.channel.expected())
                    .or_default()
                    .push(*number);
                all += 1;
            }
        }
        let crowded = by_peer.get(&from).filter(|it| it.len() >= MOST_CALLERS);
        let is_full = all >= MOST_CALLERS + CALLERS_EACH * self.peers.len();
        let most = is_full.then(|| by_peer.values().max_by_key(|it| it.len()));
        let oldest = crowded.or(most.flatten()).and_then(|it| it.iter().min());
        if let Some(caller) = oldest.and_then(|number| self.callers.remove(number)) {
            self.set.remove(caller.channel.fd());
        }
    }

    pub(super) fn take_calls(&mut self, time: Instant) {
        for _ in 0..MOST_AT_ONCE {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(why) if Errno::from_io_error(&why).is_some_and(is_want) => {
                    return self.shut(Source::Listener);
                }
                Err(_) => return,
            };
            let now = std::time::Instant::now();
            let taken = Secure::accept(stream, &self.identity, &self.peers, now)
                .and_then(|channel| self.add_caller(channel, None).map_err(Closed::Io));
            if let Err(why) = taken {
                self.refuse_call(&why.to_string(), time);
            }
        }
    }

    /// Said once in a while: strangers may call as often as they like.
    fn refuse_call(&mut self, why: &str, time: Instant) {
        if self.complain_at <= time {
            self.complain_at = time + Duration::from_secs(1);
            say!("a call was refused: {why}");
        }
    }

    pub(super) fn sweep_callers(&mut self) {
        let numbers: Vec<u32> = self.callers.keys().copied().collect();
        for number in numbers {
            self.hear_caller(number, super::clock::now());
        }
    }

    pub(super) fn hear_caller(&mut self, number: u32, time: Instant) {
        let Some(mut caller) = self.callers.remove(&number) else {
            return;
        };
        let channel = &mut caller.channel;
        let progress = channel.progress(std::time::Instant::now());
        match (progress, channel.peer()) {
            (Err(why), _) => {
                self.set.remove(channel.fd());
                match caller.called {
                    Some(host) => self.called_in_vain(host, &why.to_string(), time),
                    None => self.refuse_call(&why.to_string(), time),
                }
            }
            (Ok(()), Some(peer)) => {
                self.set.remove(channel.fd());
                if let Some(host) = self.by_peer.get(peer).copied().flatten() {
                    self.take_channel(host, caller.channel, caller.called.is_some(), time);
                }
            }
            (Ok(()), None) => {
                let wants = channel.wants_write();
                let _ = self
                    .set
                    .rewatch(Source::Caller(number), channel.fd(), wants);
                self.callers.insert(number, caller);
            }
        }
    }

    fn take_channel(&mut self, host: usize, channel: Secure, called: bool, time: Instant) {
        let first = self.me.control < self.control(host);
        let known = &self.hosts[host];
        if known.channel.is_some() && known.keeps_channel(called, first, time) {
            return;
        }
        let source = Source::Host(host as u32);
        if let Err(why) = self.set.watch(source, channel.fd(), false) {
            self.called_in_vain(host, &why.to_string(), time);
            return;
        }
        if let Some(old) = self.hosts[host].connect(channel, called, time) {
            self.set.remove(old.fd());
            self.lose_names(host, time);
        }
        self.be_patient(host, false);
        let (life, engines) = (self.life, self.engines.count() as u16);
        self.tell(
            host,
            PeerMessage::Hello {
                version: VERSION,
                life,
                engines,
            },
            time,
        );
        self.hear_host(host, time);
    }

    /// Says something to another daemon, if it can be reached.
    pub(super) fn tell(&mut self, host: usize, message: PeerMessage, time: Instant) {
        if message.is_urgent() {
            self.idle_spin.stay_awake(time);
        }
        if !self.hosts[host].say(message) {
            self.hang_up(host, "it does not read", time);
            return;
        }
        self.rewatch(host);
    }

    fn rewatch(&mut self, host: usize) {
        if let Some(channel) = &self.hosts[host].channel {
            let wants = channel.wants_write();
            let _ = self
                .set
                .rewatch(Source::Host(host as u32), channel.fd(), wants);
        }
    }

    pub(super) fn hang_up(&mut self, host: usize, why: &str, time: Instant) {
        let was_in_touch = self.hosts[host].is_in_touch();
        // It takes a look at all hosts.
        let longest = match self.hosts[host].channel {
            Some(_) => self.longest_pause(),
            None => Duration::ZERO,
        };
        if let Some(channel) = self.hosts[host].disconnect(time, longest) {
            self.set.remove(channel.fd());
            self.lose_names(host, time);
            if was_in_touch {
                say!("{}: channel lost: {why}", self.title(host));
                self.ask_link(host);
            }
        }
    }

    pub(super) fn hear_host(&mut self, host: usize, time: Instant) {
        let Some(channel) = self
            .hosts
            .get_mut(host)
            .and_then(|host| host.channel.as_mut())
        else {
            return;
        };
        let progress = channel.progress(std::time::Instant::now());
        let messages: Vec<Vec<u8>> = std::iter::from_fn(|| channel.recv()).collect();
        for bytes in messages {
            let heard = PeerMessage::decode(&bytes)
                .is_some_and(|message| self.hear_message(host, message, time));
            if !heard {
                self.hang_up(host, "it speaks another language", time);
                return;
            }
        }
        match progress {
            Err(why) => self.hang_up(host, &why.to_string(), time),
            Ok(()) if !self.hosts[host].send_on() => self.hang_up(host, "it does not read", time),
            Ok(()) => self.rewatch(host),
        }
    }

    /// `false`: it makes no sense.
    fn hear_message(&mut self, host: usize, message: PeerMessage, time: Instant) -> bool {
        let greeted = self.hosts[host].is_in_touch();
        if message.is_urgent() {
            self.idle_spin.stay_awake(time);
        }
        match message {
            PeerMessage::Hello {
                version,
                life,
                engines,
            } if !greeted && version == VERSION => {
                self.hosts[host].engines = self.engines.count().min(engines.into());
                self.meet(host, life, time);
                true
            }
            _ if !greeted => false,
            PeerMessage::Hello { .. } => false,
            PeerMessage::Shown {
                id,
                tuple,
                connected,
                lease,
            } => {
                let theirs = Theirs {
                    id,
                    connected,
                    lease,
                };
                self.hear_of(host, tuple.mirrored(), theirs, time)
            }
            PeerMessage::Withdrawn { id } => {
                self.hosts[host].withdraw(id);
                true
            }
            PeerMessage::Ready { to } => {
                self.hear_ready(host, to);
                true
            }
            PeerMessage::Prepare(proposal) => {
                self.ask(host, proposal, time);
                true
            }
            PeerMessage::Agree { to, epoch } => {
                self.open(host, to, epoch, time);
                true
            }
            PeerMessage::Decline { to, epoch } => {
                self.hear_no(host, to, epoch);
                true
            }
            PeerMessage::Named(_) | PeerMessage::Unnamed { .. } | PeerMessage::NamesTold => {
                self.hear_of_name(host, message);
                true
            }
        }
    }

    /// The daemon of another host is there: the link can come up, and it hears of all that we were shown.
    fn meet(&mut self, host: usize, life: u64, time: Instant) {
        self.hosts[host].life = Some(life);
        say!("{}: in touch", self.title(host));
        let is_new = self.hosts[host].route.is_none() && !self.is_needed(host);
        match is_new && self.peers.len() > MOST_GREETED {
            true => self.hosts[host].at_rest = true,
            false => self.want(host, time),
        }
        for id in self.connections.fresh(host) {
            // What was said about it on another channel may not have been heard.
            self.connections.forget_ready(id);
            self.tell_shown(id, time);
        }
        self.tell_names(host, time);
    }
}
