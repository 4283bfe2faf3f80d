//! A state on one line, for the reader of a trace.

use std::fmt;

use super::kernel::{Item, Pipe, Tip};
use super::state::{Holder, Run, SIDES, Side, Verdict, World};

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for side in SIDES {
            self.show_side(f, side)?;
        }
        write!(f, "{}", if self.cut { " (link cut)" } else { "" })
    }
}

impl World {
    fn show_side(&self, f: &mut fmt::Formatter<'_>, side: Side) -> fmt::Result {
        let end = &self.ends[side as usize];
        write!(
            f,
            "| {side:?} {:?} {} wrote {}",
            end.stage, end.epoch, end.written
        )?;
        write!(f, "{} read {}", if end.closed { "." } else { "" }, end.read)?;
        if end.verdict != Verdict::Reading {
            write!(f, " {:?}", end.verdict)?;
        }
        if end.holder != Holder::Program {
            write!(f, " {:?}", end.holder)?;
        }
        if self.engines[side as usize].run != Run::Up {
            write!(f, " engine {:?}", self.engines[side as usize].run)?;
        }
        if end.epoch > 0 {
            let segment = &self.segments[side as usize][end.epoch as usize - 1];
            let tail = segment.tail;
            write!(
                f,
                " ring {}..{} word {}",
                segment.freed, segment.filled, tail.offset
            )?;
            for (set, name) in [
                (tail.open, " OPEN"),
                (tail.ended, " ENDED"),
                (tail.frozen, " FROZEN"),
            ] {
                write!(f, "{}", if set { name } else { "" })?;
            }
        }
        write!(f, " kernel{} ", self.pipes[side as usize])
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = *self;
        write!(f, "[")?;
        while let Some(item) = rest.front() {
            match item {
                Item::Byte(byte) => write!(f, "{byte} ")?,
                Item::Resume(r) => {
                    write!(f, "R{}({},{},{}) ", r.epoch, r.received, r.from, r.written)?
                }
            }
            rest.pop();
        }
        match rest.tip {
            Tip::Open => write!(f, "]"),
            Tip::Fin => write!(f, "FIN]"),
            Tip::Broken => write!(f, "RST]"),
        }
    }
}
