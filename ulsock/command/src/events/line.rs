//! An event as a line of text, or of JSON.

use rendezvous::reason::Reason;
use serde::Serialize;
use sockets::journal::{CarrierName, Direction, Event, Happening};
use sockets::observe::{Endpoint, ProgramEvent};

use crate::amount::endpoint_in_json;
use crate::amount::{address, bytes};
use crate::utc;

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    event: &'static str,
    program: &'a str,
    pid: u32,
    /// The same for all events of one connection of one program.
    connection: String,
    #[serde(serialize_with = "endpoint_in_json")]
    local: Option<Endpoint>,
    #[serde(serialize_with = "endpoint_in_json")]
    peer: Option<Endpoint>,
    #[serde(flatten)]
    moved: Option<Moved>,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'static str,
    /// The reason in words.
    #[serde(skip_serializing_if = "str::is_empty")]
    meaning: &'static str,
    /// By a connection that is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_sent: Option<u64>,
}

#[derive(Serialize)]
struct Moved {
    direction: &'static str,
    from: &'static str,
    to: &'static str,
    /// The first that goes by the new carrier.
    byte: u64,
}

#[derive(Serialize)]
struct Missed {
    event: &'static str,
    count: u64,
}

/// So many were overwritten before we read them.
pub fn missed(count: u64, json: bool) -> String {
    let event = "missed";
    match json {
        true => serde_json::to_string(&Missed { event, count }).unwrap_or_default(),
        false => format!("({count} events came too fast to be read)"),
    }
}

/// What it is called.
pub fn kind(event: &Event) -> &'static str {
    match event.happening {
        Happening::Opened => "opened",
        Happening::Closed => "closed",
        Happening::Reset => "reset",
        Happening::Moved { to, .. } if to != CarrierName::Kernel => "promoted",
        Happening::Moved { .. } if event.reason == Reason::FailedOver => "failed-over",
        Happening::Moved { .. } => "demoted",
    }
}

/// What else there is to say.
pub fn detail(event: &Event) -> String {
    let offset = event.offset;
    match event.happening {
        Happening::Opened => String::new(),
        Happening::Closed => format!("{} sent{}", bytes(offset), because(event)),
        Happening::Reset => because(event).trim_start().to_owned(),
        Happening::Moved {
            direction,
            from,
            to,
        } => {
            let verb = verb(direction);
            let (from, to) = (from.name(), to.name());
            format!(
                "{verb} by {to} from byte {offset} (before: {from}){}",
                because(event)
            )
        }
    }
}

fn verb(direction: Direction) -> &'static str {
    match direction {
        Direction::Sends => "sends",
        Direction::Receives => "receives",
    }
}

fn because(event: &Event) -> String {
    match reason(event) {
        "" => String::new(),
        reason => format!(" because: {reason}"),
    }
}

/// Where it is one: nobody asks why a new connection is on the kernel, or one that is not.
fn reason(event: &Event) -> &'static str {
    match event.happening {
        Happening::Opened => "",
        Happening::Moved { to, .. } if to != CarrierName::Kernel => "",
        _ => event.reason.name(),
    }
}

pub fn text(event: &ProgramEvent) -> String {
    let ProgramEvent { program, event, .. } = event;
    let line = format!(
        "{} {program}[{}] {} {} {} {}",
        utc::text(event.time),
        event.pid,
        address(event.local),
        address(event.peer),
        kind(event),
        detail(event)
    );
    line.trim_end().to_owned()
}

pub fn json(event: &ProgramEvent) -> serde_json::Result<String> {
    let ProgramEvent { program, event, .. } = event;
    serde_json::to_string(&Line {
        time: utc::text(event.time),
        event: kind(event),
        program,
        pid: event.pid,
        connection: format!("{}.{}", event.record, event.generation),
        local: event.local,
        peer: event.peer,
        moved: moved(event),
        reason: reason(event),
        meaning: Reason::meaning_of(reason(event)),
        bytes_sent: (event.happening == Happening::Closed).then_some(event.offset),
    })
}

fn moved(event: &Event) -> Option<Moved> {
    let Happening::Moved {
        direction,
        from,
        to,
    } = event.happening
    else {
        return None;
    };
    Some(Moved {
        direction: verb(direction),
        from: from.name(),
        to: to.name(),
        byte: event.offset,
    })
}
