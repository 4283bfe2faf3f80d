//! Groups.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use native::group::{self, Event, Options, Receiver, Sender};

use crate::edge::{self, Address, give, give_object, object, time};
use crate::fiber::{is_alone, wait, within};
use crate::held::Exclusive;
use crate::names::Names;
use crate::status::{Result, Status, told, told_if_any};

/// A membership in a group. One thread may send while another one receives.
pub struct Group {
    number: u32,
    sender: Exclusive<Sender>,
    receiver: Exclusive<Receiver>,
}

/// A member of a group. Who leaves and joins again is another member.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Member {
    /// By chance; tells it from all others of the group.
    pub number: u32,
    /// As the process sees itself, in its own pid namespace.
    pub pid: u32,
    /// The address of the daemon of its host; an empty text: on this host.
    pub host: Address,
}

impl Member {
    fn new(member: group::Member) -> Member {
        Member {
            number: member.number,
            pid: member.pid,
            host: member.host.map_or(Address::none(), Address::new),
        }
    }
}

/// What a member receives, in order for each other member.
///
/// cbindgen:rename-all=QualifiedScreamingSnakeCase
#[repr(C)]
#[derive(Clone, Copy)]
pub enum GroupEventKind {
    /// A message is in the room, so many bytes of it.
    Message,
    /// From now on its messages come, and it gets what is sent here.
    Joined,
    /// It has said that it leaves. All its messages have come before.
    Left,
    /// It was killed, or the way to it was lost, or it has been put out. Perhaps it had sent more.
    Failed,
}

#[repr(C)]
pub struct GroupEvent {
    pub kind: GroupEventKind,
    /// Of a message.
    pub len: usize,
    pub member: Member,
}

impl GroupEvent {
    fn new(event: Event) -> GroupEvent {
        let (kind, len, member) = match event {
            Event::Message { from, len } => (GroupEventKind::Message, len, from),
            Event::Joined(member) => (GroupEventKind::Joined, 0, member),
            Event::Left(member) => (GroupEventKind::Left, 0, member),
            Event::Failed(member) => (GroupEventKind::Failed, 0, member),
        };
        GroupEvent {
            kind,
            len,
            member: Member::new(member),
        }
    }
}

/// Joins the group of this name. `address` is where other members connect to; null: this host only (`127.0.0.1:0`); for others let
/// it be `0.0.0.0:0`. `ring` is the size of the member's ring, a power of two (0: 1 MiB); a message has at most a quarter of it. Who
/// takes nothing for `patience` milliseconds, while this member waits for him, is put out (0: 30 s; negative: never).
///
/// # Safety
/// `service` is a text, and `address` is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_group_join(
    names: Option<&Names>,
    service: *const c_char,
    address: *const c_char,
    ring: usize,
    patience: i64,
    group: Option<&mut MaybeUninit<*mut Group>>,
) -> Status {
    told(|| {
        give_object(group, || {
            // SAFETY: the caller's word.
            let service = unsafe { edge::text(service)? };
            let mut options = Options::default();
            if !address.is_null() {
                // SAFETY: the caller's word.
                options.address = edge::numeric(unsafe { edge::text(address)? })?;
            }
            if ring != 0 {
                options.ring = ring;
            }
            if patience != 0 {
                options.patience = time(patience);
            }
            let joined = group::Group::join(Names::inner(names)?, service, options)?;
            let number = joined.number();
            let (sender, receiver) = joined.split();
            Ok(Group {
                number,
                sender: Exclusive::new(sender),
                receiver: Exclusive::new(receiver),
            })
        })
    })
}

/// By which others know this member.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_group_number(group: Option<&Group>) -> u32 {
    group.map_or(0, |group| group.number)
}

/// All who get what is sent now. `count` is how many there are; the first `room` of them are put into `members`.
///
/// # Safety
/// `members` has room for `room` members.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_group_members(
    group: Option<&Group>,
    members: *mut Member,
    room: usize,
    count: Option<&mut MaybeUninit<usize>>,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let slots = unsafe { edge::slots(members, room)? };
        let found = object(group)?.sender.with(|sender| Ok(sender.members()))?;
        give(count, found.len());
        for (slot, member) in slots.iter_mut().zip(found) {
            slot.write(Member::new(member));
        }
        Ok(())
    })
}

/// Sends a message to all members; waits while one of them has not taken what is in its place.
///
/// # Safety
/// `bytes` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_group_send(
    group: Option<&Group>,
    bytes: *const c_void,
    len: usize,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let bytes = unsafe { edge::bytes(bytes, len)? };
        object(group)?.sender.with(|sender| match is_alone() {
            true => Ok(sender.send(bytes)?),
            false => Ok(wait(sender.send_async(bytes))??),
        })
    })
}

/// The same without waiting: ULSOCK_NOTHING if there is no room.
///
/// # Safety
/// `bytes` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_group_try_send(
    group: Option<&Group>,
    bytes: *const c_void,
    len: usize,
) -> Status {
    told_if_any(|| {
        // SAFETY: the caller's word.
        let bytes = unsafe { edge::bytes(bytes, len)? };
        object(group)?
            .sender
            .with(|sender| Ok(sender.try_send(bytes)?))
    })
}

/// Waits until all members have taken all that was sent so far.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_group_flush(group: Option<&Group>) -> Status {
    told(|| {
        object(group)?.sender.with(|sender| match is_alone() {
            true => Ok(sender.flush()?),
            false => Ok(wait(sender.flush_async())??),
        })
    })
}

/// What comes next: a message, which is copied into the room, or something that has happened to a member; ULSOCK_NOTHING if nothing
/// comes within so many milliseconds (negative: as long as it takes; 0: without waiting). ULSOCK_NO_ROOM: the message is longer, and
/// still the next.
///
/// # Safety
/// `room` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_group_recv(
    group: Option<&Group>,
    room: *mut c_void,
    len: usize,
    milliseconds: i64,
    event: Option<&mut MaybeUninit<GroupEvent>>,
) -> Status {
    told_if_any(|| {
        // SAFETY: the caller's word.
        let room = unsafe { edge::room(room, len)? };
        let next = |receiver: &mut Receiver| next(receiver, room, milliseconds);
        let next = object(group)?.receiver.with(next)?;
        let any = next.is_some();
        if let Some(next) = next {
            give(event, GroupEvent::new(next));
        }
        Ok(any)
    })
}

fn next(receiver: &mut Receiver, room: &mut [u8], milliseconds: i64) -> Result<Option<Event>> {
    if let Some(event) = receiver.try_recv(room)? {
        return Ok(Some(event));
    }
    match time(milliseconds) {
        Some(time) if time.is_zero() => Ok(None),
        Some(time) if is_alone() => Ok(receiver.recv_within(time, room)?),
        Some(time) => Ok(within(time, receiver.recv_async(room))?.transpose()?),
        None if is_alone() => Ok(Some(receiver.recv(room)?)),
        None => Ok(Some(wait(receiver.recv_async(room))??)),
    }
}

/// For loops that wait by themselves: call this, then receive until there is nothing (0 milliseconds), then wait until the
/// descriptor is readable. It belongs to the group. -1: another call is at work with it.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_group_fd(group: Option<&Group>) -> c_int {
    let fd = |group: &Group| {
        let rest = |receiver: &mut Receiver| {
            receiver.rest();
            Ok(receiver.as_fd().as_raw_fd())
        };
        group.receiver.with(rest).ok()
    };
    group.and_then(fd).unwrap_or(-1)
}

/// Leaves the group. What was sent still comes to all members on this host; ulsock_group_flush() waits for those elsewhere.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_group_free(group: Option<Box<Group>>) {
    drop(group);
}
