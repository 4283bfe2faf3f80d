//! The direction that we send: which bytes have left, which are known to be there.

use core::ops::Range;

use crate::link::spans::Spans;

/// How far the end of the stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    No,
    /// No byte will follow; the peer does not know yet.
    Wanted,
    /// It is under way.
    Sent,
    Acknowledged,
}

#[derive(Debug)]
pub struct Sending {
    /// `[C6]` Everything below is acknowledged; its space is free.
    done: u64,
    /// Acknowledged beyond that.
    acknowledged: Spans,
    /// Taken for lost, to be sent again.
    lost: Spans,
    /// The first byte that was never sent.
    next: u64,
    /// The host has written up to here.
    end: u64,
    /// `[K2]` The peer has room up to here.
    credit: u64,
    close: Close,
}

impl Sending {
    pub fn new(from: u64) -> Sending {
        Sending {
            done: from,
            acknowledged: Spans::default(),
            lost: Spans::default(),
            next: from,
            end: from,
            credit: from,
            close: Close::No,
        }
    }

    pub fn done(&self) -> u64 {
        self.done
    }

    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn credit(&self) -> u64 {
        self.credit
    }

    /// The host has written up to here.
    #[inline]
    pub fn extend(&mut self, end: u64) {
        if self.close == Close::No {
            self.end = self.end.max(end);
        }
    }

    /// `[K1]` Credit never goes back; `true` if this is more.
    pub fn allow(&mut self, credit: u64) -> bool {
        let more = credit > self.credit;
        self.credit = self.credit.max(credit);
        more
    }

    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.next < self.end && self.next >= self.credit
    }

    /// `[K2]` Bytes never sent that may go now.
    #[inline]
    pub fn fresh(&self) -> Range<u64> {
        self.next..self.end.min(self.credit).max(self.next)
    }

    /// There are bytes to be sent again.
    #[inline]
    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// The first of the bytes to be sent again.
    pub fn again(&self) -> Option<Range<u64>> {
        self.lost.first()
    }

    /// A packet has taken these bytes; `false` if it is not the first that does.
    #[inline]
    pub fn sent(&mut self, bytes: Range<u64>) -> bool {
        let first = bytes.end > self.next;
        if first {
            self.next = bytes.end;
        }
        if !self.lost.is_empty() {
            self.lost.remove(bytes);
        }
        first
    }

    /// `[C6]` So many bytes from here on are in the peer's ring; how far all are. `None` if that is not so
    /// simple: they are not the first that are missing there, or the stream ends.
    #[inline]
    pub fn advance(&mut self, from: u64, length: u32) -> Option<u64> {
        let is_next = from == self.done
            && self.close == Close::No
            && self.lost.is_empty()
            && self.acknowledged.is_empty();
        if !is_next {
            return None;
        }
        self.done += u64::from(length);
        Some(self.done)
    }

    /// `[C6]` These bytes are in the peer's ring; how far all are, if that has changed.
    #[inline]
    pub fn acknowledge(&mut self, bytes: Range<u64>) -> Option<u64> {
        if !self.lost.is_empty() {
            self.lost.remove(bytes.clone());
        }
        if bytes.end <= self.done {
            return None;
        }
        if bytes.start > self.done {
            self.acknowledged.add(bytes);
            return None;
        }
        self.done = bytes.end;
        while let Some(span) = self.acknowledged.first() {
            if span.start > self.done {
                break;
            }
            self.done = self.done.max(span.end);
            self.acknowledged.drop_first();
        }
        Some(self.done)
    }

    /// `[R3]` These bytes were lost: those that are still needed go again.
    pub fn lose(&mut self, bytes: Range<u64>) {
        let needed = bytes.start.max(self.done)..bytes.end;
        if needed.is_empty() {
            return;
        }
        self.lost.add(needed.clone());
        if !self.acknowledged.overlaps(&needed) {
            return;
        }
        for span in self.acknowledged.descending() {
            if span.end <= needed.start {
                break;
            }
            if span.start < needed.end {
                self.lost.remove(span);
            }
        }
    }

    /// No byte will follow.
    pub fn finish(&mut self) {
        if self.close == Close::No {
            self.close = Close::Wanted;
        }
    }

    /// `[C7]` The end goes once all bytes have gone.
    #[inline]
    pub fn may_close(&self) -> bool {
        self.close == Close::Wanted && self.next == self.end
    }

    pub fn close_sent(&mut self) {
        if self.close == Close::Wanted {
            self.close = Close::Sent;
        }
    }

    /// `true` if it is the last acknowledgement that was missing: the same CLOSE may be acknowledged twice.
    pub fn close_acknowledged(&mut self) -> bool {
        let first = self.close_is_open();
        self.close = Close::Acknowledged;
        first && self.is_over()
    }

    /// It is under way, or has to be.
    pub fn close_is_open(&self) -> bool {
        matches!(self.close, Close::Wanted | Close::Sent)
    }

    pub fn is_over(&self) -> bool {
        self.close == Close::Acknowledged && self.done == self.end
    }
}

#[cfg(test)]
mod tests {
    use super::Sending;

    // [R3] [C6] What was acknowledged meanwhile does not go again.
    #[test]
    fn only_what_is_needed_goes_again() {
        let mut send = Sending::new(0);
        send.extend(100);
        assert!(send.sent(0..100));
        assert_eq!(send.acknowledge(40..60), None);
        send.lose(0..100);
        assert_eq!(send.again(), Some(0..40));
        assert!(!send.sent(0..40));
        assert_eq!(send.again(), Some(60..100));
        assert_eq!(send.acknowledge(0..40), Some(60));
        send.lose(0..50);
        assert_eq!(send.again(), Some(60..100));
    }
}
