//! Who is ordered: the connections that are asked for, with both their ends where both may be reached.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use rendezvous::reason::Reason;
use sockets::observe::{self, ConnectionRow, Endpoint, ProgramRow, Reach};
use sockets::orders::{Order, OrderedFamily, Standing};

use crate::selection::Selection;

struct Program {
    row: ProgramRow,
    memory: OrderedFamily,
    /// Where its addresses mean something.
    network: Option<PathBuf>,
}

/// One end of a connection, of the program at this place.
struct End {
    program: usize,
    row: ConnectionRow,
}

/// With the end that was asked for first.
pub struct Connection {
    ends: Vec<End>,
}

pub struct Targets {
    programs: Vec<Program>,
    /// Those that get an order for all, by their places.
    whole: Vec<usize>,
    pub connections: Vec<Connection>,
    /// Who cannot be ordered, and why: nobody else has to suffer for it.
    pub refused: Vec<String>,
}

/// Names an end among those of this host.
type Name = (PathBuf, Endpoint, Endpoint);

impl Targets {
    /// `all`: whole programs are ordered, and their connections looked at.
    pub fn find(reach: &Reach, selection: &Selection, all: bool) -> Targets {
        let (mut programs, mut refused) = (Vec::new(), Vec::new());
        observe::each_program(reach, |row, found| match OrderedFamily::open(found) {
            Ok(memory) => programs.push(Program {
                network: std::fs::read_link(format!("/proc/{}/ns/net", row.pid)).ok(),
                row,
                memory,
            }),
            Err(error) if selection.has_any(&row) => {
                refused.push(format!(
                    "{} ({}) cannot be ordered: its memory cannot be opened to write: {error}",
                    row.program, row.pid
                ));
            }
            Err(_) => {}
        });
        let is_whole = |place: &usize| all && selection.has_any(&programs[*place].row);
        let whole: Vec<usize> = (0..programs.len()).filter(is_whole).collect();
        let connections = connections(&mut programs, |place, row| match all {
            true => whole.contains(&place),
            false => selection.has(row.pid, &row.program, [row.local, row.peer]),
        });
        Targets {
            programs,
            whole,
            connections,
            refused,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.connections.is_empty()
    }

    /// How many programs have got an order.
    pub fn count_programs(&self) -> usize {
        let ends = self.connections.iter().map(|it| it.ends[0].program);
        let mut programs: Vec<usize> = self.whole.iter().copied().chain(ends).collect();
        programs.sort_unstable();
        programs.dedup();
        programs.len()
    }

    pub fn are_programs(&self) -> bool {
        !self.whole.is_empty()
    }

    pub fn order(&self, order: Order) {
        for place in &self.whole {
            self.programs[*place]
                .memory
                .order_all(order == Order::Kernel);
        }
        if self.are_programs() {
            return;
        }
        for end in self.connections.iter().flat_map(|it| &it.ends) {
            let memory = &self.programs[end.program].memory;
            // One that has ended meanwhile needs none.
            let _ = memory.order(end.row.record, end.row.generation, order);
        }
    }

    pub fn have_followed(&self, order: Order) -> bool {
        let mut standings = self.connections.iter().map(|it| self.standing(it, order).0);
        standings.all(|it| matches!(it, Standing::Done | Standing::Never | Standing::Gone))
    }

    /// How far the order has come at its ends, and why it is on the kernel, if it is.
    pub fn standing(&self, connection: &Connection, order: Order) -> (Standing, Reason) {
        let ends = connection.ends.iter().map(|end| {
            let memory = &self.programs[end.program].memory;
            memory.standing(end.row.record, end.row.generation, order)
        });
        let least = |it: &(Standing, Reason)| match it.0 {
            Standing::Gone => 0,
            Standing::Never => 1,
            Standing::Unseen => 2,
            Standing::Seen => 3,
            Standing::Done => 4,
        };
        ends.min_by_key(least)
            .unwrap_or((Standing::Gone, Reason::None))
    }

    pub fn row<'a>(&self, connection: &'a Connection) -> &'a ConnectionRow {
        &connection.ends[0].row
    }

    /// Another order keeps it on the kernel: that for all of its program, or of the other end's.
    pub fn is_off(&self, connection: &Connection) -> bool {
        let mut ends = connection.ends.iter();
        ends.any(|end| self.programs[end.program].memory.is_off())
    }
}

/// Those that are asked for, each with its other end if that is found: in the same network, for elsewhere the same
/// addresses are another's.
fn connections(
    programs: &mut [Program],
    is_meant: impl Fn(usize, &ConnectionRow) -> bool,
) -> Vec<Connection> {
    let mut ends = Vec::new();
    for (program, it) in programs.iter_mut().enumerate() {
        let rows = std::mem::take(&mut it.row.connection_rows);
        ends.extend(rows.into_iter().map(|row| Some(End { program, row })));
    }
    let mut places = HashMap::new();
    for (place, end) in ends.iter().flatten().enumerate() {
        if let Some((network, local, peer)) = name(programs, end) {
            places.insert((network, local, peer), place);
        }
    }
    let mut connections = Vec::new();
    for place in 0..ends.len() {
        let Some(end) = ends[place].take_if(|end| is_meant(end.program, &end.row)) else {
            continue;
        };
        let other = name(programs, &end).map(|(network, local, peer)| (network, peer, local));
        let other = other.and_then(|name| places.get(&name));
        let other = other.and_then(|place| ends[*place].take());
        let ends = [Some(end), other].into_iter().flatten().collect();
        connections.push(Connection { ends });
    }
    connections
}

fn name(programs: &[Program], end: &End) -> Option<Name> {
    let network = programs[end.program].network.clone()?;
    let plain = |end: Endpoint| match end {
        Endpoint::Inet(end) => {
            let plain = SocketAddr::new(end.ip().to_canonical(), end.port());
            Some(Endpoint::Inet(plain))
        }
        // Nobody has asked for its number yet.
        Endpoint::Unix(0) => None,
        Endpoint::Unix(_) => Some(end),
    };
    Some((network, plain(end.row.local?)?, plain(end.row.peer?)?))
}
