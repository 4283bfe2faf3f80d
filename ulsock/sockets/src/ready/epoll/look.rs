//! Looking at members: what there is to tell the program, and what it knows already.

use std::mem::MaybeUninit;
use std::os::fd::RawFd;

use libc::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLPRI, POLLRDHUP, c_short, epoll_event};

use super::member::{Member, Told};
use super::state::SetState;
use crate::conn::{Conn, send};
use os::spin::History;

/// What comes and stays, unlike bytes and space.
const ENDS: c_short = POLLRDHUP | POLLHUP | POLLERR | POLLPRI;

pub enum Finding {
    Gone,
    Nothing,
    News(MemberNews),
}

/// Something to tell.
pub struct MemberNews {
    /// What the program asked about and holds now.
    revents: c_short,
    /// Edge-triggered: where the stream ends, and which ends of it show.
    end: u64,
    ends: c_short,
    received: u64,
    /// Bytes, from a thread that was last seen on this CPU.
    near: bool,
}

/// Looks at everyone in the queue up to the ticket `newest` once, and tells the program of those that have news.
pub fn gather(
    state: &mut SetState,
    events: &mut [MaybeUninit<epoll_event>],
    newest: u64,
    spin: &History,
) -> usize {
    let mut told = 0;
    while told < events.len() {
        let Some(fd) = state.next(newest) else { break };
        if let Finding::News(news) = examine_armed(state, fd)
            && let Some(event) = tell(state, fd, &news)
        {
            spin.note_sender(news.near);
            events[told].write(event);
            told += 1;
        }
    }
    told
}

/// If there is nothing: wires up, then a second look, for what came in between has not rung.
pub fn examine_armed(state: &mut SetState, fd: RawFd) -> Finding {
    let mut again = false;
    loop {
        let Some(member) = state.members.get_mut(&fd) else {
            return Finding::Gone;
        };
        match examine(member) {
            Finding::Nothing if !again => {
                state.arm(fd);
                again = true;
            }
            Finding::Nothing => {
                state.settle(fd);
                return Finding::Nothing;
            }
            Finding::Gone => {
                state.silence_parked(fd);
                return Finding::Gone;
            }
            finding => return finding,
        }
    }
}

fn examine(member: &mut Member) -> Finding {
    if member.disabled || member.converted.is_none() {
        return Finding::Gone;
    }
    let Some(conn) = Conn::enter(member.handle) else {
        return Finding::Gone;
    };
    send::serve(&conn);
    let finding = match member.is_edge() {
        true => examine_edge(member, &conn),
        false => examine_level(member, &conn),
    };
    if matches!(&finding, Finding::News(news) if news.revents & POLLIN != 0) {
        conn.fetch_bytes();
    }
    finding
}

fn examine_level(member: &mut Member, conn: &Conn<'_>) -> Finding {
    let revents = conn.revents(member.wanted());
    member.told.blocked = member.wanted() & POLLOUT & !revents != 0;
    match revents {
        0 => Finding::Nothing,
        revents => Finding::News(MemberNews {
            revents,
            end: 0,
            ends: 0,
            received: 0,
            near: revents & POLLIN != 0 && conn.peer_is_near(),
        }),
    }
}

/// Only what is new since it was last told, as the kernel's wake-ups would be: bytes, an end of the
/// stream, space after a lack of it.
fn examine_edge(member: &mut Member, conn: &Conn<'_>) -> Finding {
    let wanted = member.wanted();
    // The end before the rest: bytes that come in between are news the next time.
    let end = if wanted & POLLIN != 0 {
        conn.stream_end().unwrap_or(member.told.end)
    } else {
        member.told.end
    };
    // A FIN and an urgent byte are events also for who asked for input alone.
    let all = conn.revents(wanted | POLLRDHUP | POLLPRI);
    let (ends, told) = (all & ENDS, &mut member.told);
    // What lies behind an urgent byte is in no count but this.
    let received = if ends & POLLPRI != 0 {
        conn.received_by_kernel()
    } else {
        0
    };
    // Bytes are news even if somebody has read them meanwhile: what else holds is told again. But fewer than
    // SO_RCVLOWAT says wake nobody.
    let counts = all & POLLIN != 0 || conn.least_to_tell() == 1;
    let news = !told.once
        || received > told.received
        || counts && end > told.end
        || ends & !told.ends != 0
        || (all & POLLOUT != 0 && told.blocked);
    told.ends &= ends;
    told.blocked |= wanted & POLLOUT != 0 && all & POLLOUT == 0;
    match all & (wanted | POLLHUP | POLLERR) {
        0 => {
            told.end = if counts { end } else { told.end };
            Finding::Nothing
        }
        revents if news => Finding::News(MemberNews {
            revents,
            // Who hears of input finds what has come in between too.
            end: match revents & POLLIN {
                0 => end,
                _ => conn.stream_end().unwrap_or(end),
            },
            ends,
            received,
            near: revents & POLLIN != 0 && conn.peer_is_near(),
        }),
        _ => Finding::Nothing,
    }
}

/// The wires are up: is there anything that would have tripped them, had they been up since the look? While they are put up
/// anew they are down for a moment, and what comes then rings nobody.
fn has_come_since(told: &Told, conn: &Conn<'_>) -> bool {
    send::serve(conn);
    conn.tail() > told.end
        || told.blocked && conn.revents(POLLOUT) & POLLOUT != 0
        || conn.has_word_of_link(told.ends & POLLRDHUP != 0)
}

fn tell(state: &mut SetState, fd: RawFd, news: &MemberNews) -> Option<epoll_event> {
    let member = state.members.get_mut(&fd)?;
    let event = epoll_event {
        events: news.revents as u16 as u32,
        u64: member.data,
    };
    let (oneshot, edge) = (member.is_oneshot(), member.is_edge());
    if edge {
        member.told.once = true;
        member.told.end = news.end;
        member.told.ends |= news.ends;
        member.told.received = news.received;
        member.told.blocked &= news.revents & POLLOUT == 0;
    }
    if oneshot {
        member.disable();
        state.confirm(fd);
    } else if edge {
        // The next byte after those that it knows of now is news, as is room; if it has come already, so is that.
        state.arm(fd);
        let member = state.members.get(&fd)?;
        if Conn::enter(member.handle).is_some_and(|conn| has_come_since(&member.told, &conn)) {
            state.enqueue(fd);
        }
    } else {
        state.enqueue(fd);
    }
    Some(event)
}

#[cfg(test)]
mod tests {
    use libc::{EPOLLET, EPOLLIN, EPOLLOUT};

    use super::*;
    use crate::conn::ready::Armed;
    use crate::ready::epoll;
    use crate::state::table::{self, Slot};
    use crate::testing::{Fd, World};

    fn with_state<R>(set: Fd, act: impl FnOnce(&mut SetState) -> R) -> R {
        let Slot::Epoll(number) = table::get(set.0) else {
            panic!("not a set")
        };
        let mut held = epoll::get(number)
            .and_then(epoll::Set::hold)
            .expect("a set");
        act(held.state())
    }

    /// What a look finds at the member that has rung, and then the wire for room as it is while it is put up anew: down.
    fn look_and_take_down(state: &mut SetState) -> MemberNews {
        state.collect();
        let fd = state.next(state.newest()).expect("it has rung");
        let member = state.members.get_mut(&fd).expect("a member");
        let Finding::News(news) = examine(member) else {
            panic!("nothing to tell")
        };
        let space = member.armed.space.take();
        assert!(space.is_some(), "it waits for room");
        let conn = Conn::enter(member.handle).expect("a ring pair");
        conn.disarm(Armed {
            space,
            ..Armed::default()
        });
        news
    }

    #[test]
    fn room_that_comes_while_bytes_are_told_is_told_too() {
        let world = World::promoted();
        let set = world.client.epoll();
        let events = EPOLLIN | EPOLLOUT | EPOLLET;
        world.client.epoll_add(set, world.near, events);
        while world.client.send(world.near, &[0; 1 << 16]).is_ok() {}
        while !world.client.epoll_wait(set).is_empty() {}
        assert_eq!(world.server.send(world.far, b"x"), Ok(1));
        let news = world.client.run(|| with_state(set, look_and_take_down));
        while world.server.receive(world.far, 1 << 20).is_ok() {}
        let told = world
            .client
            .run(|| with_state(set, |state| tell(state, world.near.0, &news)));
        assert_eq!(told.map(|event| event.events), Some(EPOLLIN as u32));
        let both = (EPOLLIN | EPOLLOUT) as u32;
        assert_eq!(world.client.epoll_wait(set), [(world.near, both)]);
    }
}
