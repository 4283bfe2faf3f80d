//! Where the events of tripwires come.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use native::memory::{Event, EventQueue};

use crate::edge::{give, give_object, object, time};
use crate::fiber::{is_alone, wait, within};
use crate::held::Exclusive;
use crate::status::{Result, Status, told, told_if_any};

/// A set of tripwires: those of all regions that were exported with it. Any thread may use it, one at a time.
pub struct WireEvents(Exclusive<EventQueue>);

impl WireEvents {
    pub fn with<R>(&self, call: impl FnOnce(&mut EventQueue) -> Result<R>) -> Result<R> {
        self.0.with(call)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn ulsock_wire_events_new(
    events: Option<&mut MaybeUninit<*mut WireEvents>>,
) -> Status {
    told(|| {
        give_object(events, || {
            Ok(WireEvents(Exclusive::new(EventQueue::new()?)))
        })
    })
}

/// The wire that somebody has written to next, by its number (ulsock_wire_number()); ULSOCK_NOTHING if none is within so many
/// milliseconds (negative: as long as it takes; 0: without waiting). Writes that touch a wire before its event is taken are one.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_wire_events_next(
    events: Option<&WireEvents>,
    milliseconds: i64,
    wire: Option<&mut MaybeUninit<u64>>,
) -> Status {
    told_if_any(|| {
        let next = object(events)?.with(|queue| next(queue, milliseconds))?;
        let any = next.is_some();
        if let Some(next) = next {
            give(wire, next.wire.number());
        }
        Ok(any)
    })
}

fn next(queue: &mut EventQueue, milliseconds: i64) -> Result<Option<Event>> {
    if let Some(event) = queue.try_next()? {
        return Ok(Some(event));
    }
    match time(milliseconds) {
        Some(time) if time.is_zero() => Ok(None),
        Some(time) if is_alone() => Ok(queue.wait_within(time)?),
        Some(time) => Ok(within(time, queue.event())?.transpose()?),
        None if is_alone() => Ok(Some(queue.wait()?)),
        None => Ok(Some(wait(queue.event())??)),
    }
}

/// For loops that wait by themselves: when this descriptor is readable, ask for events until there is nothing. It belongs to
/// `events`. -1: another call is at work with them.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_wire_events_fd(events: Option<&WireEvents>) -> c_int {
    let fd = |events: &WireEvents| events.with(|queue| Ok(queue.as_raw_fd())).ok();
    events.and_then(fd).unwrap_or(-1)
}

#[unsafe(no_mangle)]
pub extern "C" fn ulsock_wire_events_free(events: Option<Box<WireEvents>>) {
    drop(events);
}
