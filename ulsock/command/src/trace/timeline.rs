//! The timeline as Chrome's trace events in JSON, which ui.perfetto.dev opens: a slice for each call and each part of it, a
//! track for each direction of a connection with the carriers that it went by, an instant for each change, and how many
//! connections are on which carrier. Times are microseconds of the monotonic clock, so that two runs fit together.

use std::io::{self, Write};

use rendezvous::reason::Reason;
use serde_json::{Map, Value, json};
use sockets::journal::{CarrierName, Direction, Happening};
use trace::entry::{Called, Carrier, Connection, Phase};

use super::model::{Calls, History, Program, Run, Slice, What};

pub fn write(out: &mut impl Write, run: &Run) -> io::Result<()> {
    let mut events = Events { out, first: true };
    write!(events.out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    for program in &run.programs {
        names(&mut events, program)?;
        for thread in &program.threads {
            for slice in &thread.slices {
                call(&mut events, thread, slice)?;
            }
        }
        for (name, history) in &program.connections {
            connection(&mut events, *name, history)?;
        }
        carriers(&mut events, program)?;
    }
    writeln!(events.out, "\n]}}")
}

struct Events<'a, W> {
    out: &'a mut W,
    first: bool,
}

impl<W: Write> Events<'_, W> {
    /// `time` in nanoseconds; `more`: the other members.
    fn add(&mut self, kind: &str, pid: u32, time: u64, more: &Value) -> io::Result<()> {
        let comma = if self.first { "" } else { "," };
        self.first = false;
        let time = micros(time);
        write!(
            self.out,
            "{comma}\n{{\"ph\":\"{kind}\",\"pid\":{pid},\"ts\":{time}"
        )?;
        for (name, value) in more.as_object().into_iter().flatten() {
            write!(self.out, ",\"{name}\":{value}")?;
        }
        write!(self.out, "}}")
    }
}

/// Exactly: a float would cut nanoseconds off after some days.
fn micros(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}

fn as_micros(nanos: u64) -> Value {
    json!(nanos as f64 / 1000.0)
}

fn names<W: Write>(events: &mut Events<'_, W>, program: &Program) -> io::Result<()> {
    let mut pids: Vec<u32> = program.threads.iter().map(|it| it.pid).collect();
    pids.push(program.pid);
    pids.sort_unstable();
    pids.dedup();
    for pid in pids {
        let args = json!({"name": program.name});
        let name = json!({"name": "process_name", "tid": pid, "args": args});
        events.add("M", pid, program.began, &name)?;
    }
    for thread in &program.threads {
        let args = json!({"name": thread.name});
        let name = json!({"name": "thread_name", "tid": thread.tid, "args": args});
        events.add("M", thread.pid, program.began, &name)?;
    }
    Ok(())
}

fn call<W: Write>(events: &mut Events<'_, W>, thread: &Calls, slice: &Slice) -> io::Result<()> {
    let tid = thread.tid;
    let (name, category, args) = match &slice.what {
        What::Call(called) => (called.call.name(), "call", arguments(called)),
        What::UnderWay(called) => {
            let args = json!({"fd": called.fd, "under_way": true});
            (called.call.name(), "call", args)
        }
        What::Phase(Phase::Woke) => {
            let woke = json!({"name": "woke", "cat": "wait", "s": "t", "tid": tid});
            return events.add("i", thread.pid, slice.start, &woke);
        }
        What::Phase(phase) => (phase_name(*phase), "wait", json!({})),
    };
    let length = as_micros(slice.end - slice.start);
    let more = json!({"name": name, "cat": category, "tid": tid, "dur": length, "args": args});
    events.add("X", thread.pid, slice.start, &more)
}

/// The same for all calls of a connection of one program, as `ulsock events` names it.
fn name_of(connection: Connection) -> String {
    format!("{}.{}", connection.record, connection.generation)
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Awake => "awake",
        Phase::InVain => "awake in vain",
        Phase::Asleep => "asleep",
        Phase::Woke => "woke",
    }
}

/// What there is to say.
fn arguments(called: &Called) -> Value {
    let mut args = Map::new();
    let mut say = |name: &str, value: Value| args.insert(name.to_owned(), value);
    if called.fd >= 0 {
        say("fd", called.fd.into());
    }
    say("result", called.result.into());
    if called.errno != 0 {
        say("errno", called.errno.into());
    }
    if let Some(connection) = called.connection {
        say("connection", name_of(connection).into());
        say("carrier", called.carrier.name().into());
        let reason = Reason::from_number(called.reason.into()).name();
        if called.carrier == Carrier::Kernel && !reason.is_empty() {
            say("reason", reason.into());
        }
    }
    for (name, time) in [
        ("awake_us", called.awake),
        ("in_vain_us", called.in_vain),
        ("asleep_us", called.asleep),
    ] {
        if time != 0 {
            say(name, as_micros(time));
        }
    }
    if called.woke != 0 {
        say("woke", called.woke.into());
    }
    Value::Object(args)
}

/// Two tracks: what it sends by, and what it receives by.
fn connection<W: Write>(
    events: &mut Events<'_, W>,
    connection: Connection,
    history: &History,
) -> io::Result<()> {
    let (pid, record) = (connection.family, name_of(connection));
    for (direction, word) in [
        (Direction::Sends, "sends"),
        (Direction::Receives, "receives"),
    ] {
        let id = format!("{pid}.{record}.{word}");
        let track = |name: &str| json!({"cat": "connection", "id": id, "tid": pid, "name": name});
        let whole = format!("{} {word}", history.name());
        let mut carrier = CarrierName::Kernel.name();
        events.add("b", pid, history.first, &track(&whole))?;
        events.add("b", pid, history.first, &track(carrier))?;
        for (time, happening, reason, offset) in &history.moments {
            let Happening::Moved {
                direction: of,
                from,
                to,
            } = happening
            else {
                continue;
            };
            if *of != direction {
                continue;
            }
            events.add("e", pid, *time, &track(carrier))?;
            carrier = to.name();
            events.add("b", pid, *time, &track(carrier))?;
            let verb = match to {
                CarrierName::Kernel => "demoted",
                _ => "promoted",
            };
            let name = format!("{verb}: {word} by {carrier} from byte {offset}");
            let args = json!({"connection": history.name(), "record": record, "direction": word, "from": from.name(), "to": carrier, "byte": offset, "reason": reason.name()});
            let instant =
                json!({"name": name, "cat": "connection", "s": "p", "tid": pid, "args": args});
            events.add("i", pid, *time, &instant)?;
        }
        events.add("e", pid, history.last, &track(carrier))?;
        events.add("e", pid, history.last, &track(&whole))?;
    }
    Ok(())
}

/// How many connections send by each carrier, over time.
fn carriers<W: Write>(events: &mut Events<'_, W>, program: &Program) -> io::Result<()> {
    // Each step: a time, and what it adds to each carrier.
    let mut steps: Vec<(u64, [i64; 3])> = Vec::new();
    let one = |carrier: CarrierName, by: i64| {
        let mut step = [0; 3];
        step[carrier as usize] = by;
        step
    };
    for history in program.connections.values() {
        let mut now = CarrierName::Kernel;
        steps.push((history.first, one(now, 1)));
        for (time, happening, ..) in &history.moments {
            if let Happening::Moved {
                direction: Direction::Sends,
                to,
                ..
            } = happening
            {
                steps.push((*time, one(now, -1)));
                steps.push((*time, one(*to, 1)));
                now = *to;
            }
        }
        steps.push((history.last, one(now, -1)));
    }
    steps.sort_unstable_by_key(|it| it.0);
    let mut counts = [0; 3];
    for (at, (time, step)) in steps.iter().enumerate() {
        (0..3).for_each(|carrier| counts[carrier] += step[carrier]);
        if steps.get(at + 1).is_some_and(|next| next.0 == *time) {
            continue;
        }
        let [kernel, shm, nic] = counts;
        let args = json!({"kernel": kernel, "shm": shm, "nic": nic});
        let counter = json!({"name": "connections", "tid": program.pid, "args": args});
        events.add("C", program.pid, *time, &counter)?;
    }
    Ok(())
}
