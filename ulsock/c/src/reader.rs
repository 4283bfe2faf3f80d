//! What comes in pieces: a message, a request or a reply.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::rc::Rc;
use std::time::Instant;

use native::message::Incoming;
use native::request::{Caller, ReplyReader, RequestReader, Requests};

use crate::edge::{self, give, give_object, nulled, object};
use crate::fiber::wait;
use crate::held::{Handle, Local, free};
use crate::peer::Peer;
use crate::status::{Error, Result, Status, told, told_if_any};

/// A message, a request or a reply, as it comes: it is read in pieces of any size, whatever the sender's were.
pub struct Reader {
    input: Local<Input>,
    is_lent: bool,
}

pub enum Input {
    Message(Incoming),
    Request(RequestReader),
    /// Its endpoint is served while this waits.
    Reply(ReplyReader, Caller, Rc<Requests>),
}

impl Handle for Reader {
    type Object = Input;

    fn local(&self) -> &Local<Input> {
        &self.input
    }

    fn is_lent(&self) -> bool {
        self.is_lent
    }
}

impl Reader {
    pub fn new(input: Input) -> Reader {
        Reader {
            input: Local::new(input),
            is_lent: false,
        }
    }

    /// For a handler, which must not free it.
    pub fn lent(input: Input) -> Reader {
        Reader {
            is_lent: true,
            ..Reader::new(input)
        }
    }
}

impl Input {
    fn read(&mut self, room: &mut [u8]) -> Result<usize> {
        Ok(match self {
            Input::Message(input) => wait(input.read(room))??,
            Input::Request(input) => wait(input.read(room))??,
            Input::Reply(input, _, requests) => wait(requests.while_served(input.read(room)))??,
        })
    }

    fn read_up_to(&mut self, room: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < room.len() {
            match self.read(&mut room[filled..])? {
                0 => break,
                n => filled += n,
            }
        }
        Ok(filled)
    }

    /// The rest, if it is not longer than `most`.
    fn read_rest(&mut self, most: usize) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let at = all.len();
            let more = (at * 2).clamp(256, 64 << 10);
            all.resize(at + more.min((most - at).saturating_add(1)), 0);
            let n = self.read(&mut all[at..])?;
            all.truncate(at + n);
            match n {
                0 => return Ok(all),
                _ if all.len() > most => {
                    let text = format!("there are more than {most} bytes");
                    return Err(Error::new(Status::TooLong, text));
                }
                _ => {}
            }
        }
    }
}

/// Reads some bytes, as soon as there are any; `n` is 0 at the end.
///
/// # Safety
/// `room` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_reader_read(
    reader: Option<&Reader>,
    room: *mut c_void,
    len: usize,
    n: Option<&mut MaybeUninit<usize>>,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let room = unsafe { edge::room(room, len)? };
        give(n, object(reader)?.input.with(|input| input.read(room))?);
        Ok(())
    })
}

/// Reads until the room is full or nothing is left.
///
/// # Safety
/// `room` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_reader_read_up_to(
    reader: Option<&Reader>,
    room: *mut c_void,
    len: usize,
    n: Option<&mut MaybeUninit<usize>>,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let room = unsafe { edge::room(room, len)? };
        give(
            n,
            object(reader)?.input.with(|input| input.read_up_to(room))?,
        );
        Ok(())
    })
}

/// Fills the room: ULSOCK_TOO_SHORT if there is not as much.
///
/// # Safety
/// `room` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_reader_read_exact(
    reader: Option<&Reader>,
    room: *mut c_void,
    len: usize,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let room = unsafe { edge::room(room, len)? };
        let read = object(reader)?.input.with(|input| input.read_up_to(room))?;
        match len - read {
            0 => Ok(()),
            missing => {
                let text = format!("{missing} bytes are missing");
                Err(Error::new(Status::TooShort, text))
            }
        }
    })
}

/// Reads all that is left, if it is not more than `most` bytes (ULSOCK_TOO_LONG), into memory that the program gives to free().
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_reader_read_rest(
    reader: Option<&Reader>,
    most: usize,
    bytes: Option<&mut MaybeUninit<*mut c_void>>,
    len: Option<&mut MaybeUninit<usize>>,
) -> Status {
    told(|| {
        let bytes = bytes.map(nulled);
        let rest = object(reader)?.input.with(|input| input.read_rest(most))?;
        give_bytes(&rest, bytes, len)
    })
}

/// A copy for the program, which gives it to free(). Never null, so that none at all is told from an error.
pub fn give_bytes(
    bytes: &[u8],
    place: Option<&mut *mut c_void>,
    len: Option<&mut MaybeUninit<usize>>,
) -> Result<()> {
    if let Some(place) = place {
        // SAFETY: a size above zero.
        let copy = unsafe { libc::malloc(bytes.len().max(1)) };
        if copy.is_null() {
            return Err(Error::new(Status::NoMemory, "no memory for the bytes"));
        }
        // SAFETY: so many bytes were allocated.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), copy.cast(), bytes.len()) };
        *place = copy;
    }
    give(len, bytes.len());
    Ok(())
}

/// Who sends it. The peer is the program's, who frees it.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_reader_peer(
    reader: Option<&Reader>,
    peer: Option<&mut MaybeUninit<*mut Peer>>,
) -> Status {
    told(|| {
        let sender = |input: &Input| {
            Ok(match input {
                Input::Message(input) => input.peer(),
                Input::Request(input) => input.peer(),
                Input::Reply(_, caller, _) => caller.peer().clone(),
            })
        };
        give_object(peer, || {
            Ok(Peer::new(object(reader)?.input.shared(sender)?))
        })
    })
}

/// Of a request: after so many milliseconds its caller stops waiting, and the handler is cancelled. ULSOCK_NOTHING: never.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_reader_time_left(
    reader: Option<&Reader>,
    milliseconds: Option<&mut MaybeUninit<u64>>,
) -> Status {
    told_if_any(|| {
        let deadline = object(reader)?.input.shared(|input| {
            Ok(match input {
                Input::Request(input) => input.deadline(),
                _ => None,
            })
        })?;
        let Some(deadline) = deadline else {
            return Ok(false);
        };
        let left = deadline.saturating_duration_since(Instant::now());
        give(
            milliseconds,
            left.as_millis().try_into().unwrap_or(u64::MAX),
        );
        Ok(true)
    })
}

/// What was not read is skipped; a reply that was not read to its end is cancelled. This does nothing with what is lent to a
/// handler, which ends when the handler returns.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_reader_free(reader: Option<Box<Reader>>) {
    free(reader);
}
