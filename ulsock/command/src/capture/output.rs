//! Where copies go: into a file or pipe as pcapng, or to the terminal as text.

use std::collections::HashSet;
use std::io::{self, BufWriter, Stdout, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sockets::capture::Copied;

use super::{line, packet, pcapng};

pub trait Output {
    fn put(&mut self, copied: &Copied, program: &str) -> io::Result<()>;
    fn flush(&mut self) -> io::Result<()>;
    /// So many packets there have been, and so many of them are not here.
    fn end(&mut self, time: u64, all: u64, missed: u64) -> io::Result<()>;
    /// Nobody reads any more.
    fn is_closed(&self) -> bool;
}

fn is_closed(fd: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::empty())];
    let gone = PollFlags::ERR | PollFlags::NVAL;
    poll(&mut fds, Some(&Timespec::default())).is_ok() && fds[0].revents().intersects(gone)
}

pub struct PcapngOutput<W: Write + AsFd> {
    out: BufWriter<W>,
    snaplen: u32,
    /// Connections whose packets have begun: process, record, its use.
    begun: HashSet<(u32, u32, u32)>,
}

/// Connections that are remembered; then their comments come again.
const REMEMBERED: usize = 100_000;

impl<W: Write + AsFd> PcapngOutput<W> {
    pub fn begin(out: W, snaplen: u32) -> io::Result<PcapngOutput<W>> {
        let mut out = BufWriter::with_capacity(1 << 18, out);
        pcapng::begin(&mut out, snaplen)?;
        out.flush()?;
        Ok(PcapngOutput {
            out,
            snaplen,
            begun: HashSet::new(),
        })
    }

    /// With the first packet of a direction: who sends it.
    fn comment(&mut self, copied: &Copied, program: &str) -> Option<String> {
        if self.begun.len() >= REMEMBERED {
            self.begun.clear();
        }
        let carrier = if copied.by_link { "link" } else { "ring" };
        let name = (copied.pid, copied.record, copied.generation);
        let is_first = self.begun.insert(name);
        is_first.then(|| format!("{program}[{}] sends by a {carrier}", copied.pid))
    }
}

impl<W: Write + AsFd> Output for PcapngOutput<W> {
    fn put(&mut self, copied: &Copied, program: &str) -> io::Result<()> {
        let comment = self.comment(copied, program);
        let packet = pcapng::Packet {
            time: copied.time,
            bytes: &packet::packet(copied),
            snaplen: self.snaplen,
            comment: comment.as_deref(),
        };
        pcapng::packet(&mut self.out, &packet)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn end(&mut self, time: u64, all: u64, missed: u64) -> io::Result<()> {
        pcapng::statistics(&mut self.out, time, all, missed)?;
        self.out.flush()
    }

    fn is_closed(&self) -> bool {
        is_closed(self.out.get_ref())
    }
}

pub struct TextOutput(BufWriter<Stdout>);

impl TextOutput {
    pub fn new() -> TextOutput {
        TextOutput(BufWriter::new(io::stdout()))
    }
}

impl Output for TextOutput {
    fn put(&mut self, copied: &Copied, program: &str) -> io::Result<()> {
        writeln!(self.0, "{}", line::text(copied, program))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    fn end(&mut self, _time: u64, _all: u64, _missed: u64) -> io::Result<()> {
        self.0.flush()
    }

    fn is_closed(&self) -> bool {
        is_closed(self.0.get_ref())
    }
}
