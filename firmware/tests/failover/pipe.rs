//! Kernel TCP, one direction: reliable and in order, with a buffer of some size.

use std::collections::VecDeque;

use netstack::failover::Tip;

const BUFFER: usize = 30_000;

#[derive(Debug, Default)]
pub struct Pipe {
    bytes: VecDeque<u8>,
    pub fin: bool,
}

impl Pipe {
    /// As many as there is room for; a record goes as a whole.
    pub fn write(&mut self, bytes: &[u8]) -> u64 {
        assert!(!self.fin, "nothing can follow FIN");
        let count = bytes.len().min(BUFFER.saturating_sub(self.bytes.len()));
        self.bytes.extend(&bytes[..count]);
        count as u64
    }

    pub fn has_room(&self, bytes: usize) -> bool {
        self.bytes.len() + bytes <= BUFFER
    }

    pub fn peek(&mut self, most: usize) -> &[u8] {
        let bytes = self.bytes.make_contiguous();
        &bytes[..bytes.len().min(most)]
    }

    pub fn read(&mut self, most: u64) -> Vec<u8> {
        let count = (most as usize).min(self.bytes.len());
        self.bytes.drain(..count).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What follows the last byte.
    pub fn tip(&self) -> Option<Tip> {
        (self.fin && self.is_empty()).then_some(Tip::Fin)
    }
}
