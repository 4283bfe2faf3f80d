//! Bytes without a copy: rooms and views in the ring of a stream.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use native::future::TcpStream;
use native::{Room, View};

use crate::edge::{self, give, give_object, object};
use crate::fiber::{can_wait, wait};
use crate::held::{Handle, Local, free};
use crate::status::{Error, Result, Status, told};
use crate::stream::Stream;

/// A stream that one room or view has for itself, until this is dropped.
pub struct Taken(&'static Stream);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

impl Taken {
    /// # Safety
    /// The stream is not freed as long as this lives.
    unsafe fn new(stream: &Stream) -> Result<(Taken, &'static mut TcpStream)> {
        let inner = stream.take()?;
        // SAFETY: nobody else has it until it is given back, and the caller says that it lives.
        let (stream, inner) = unsafe { (&*std::ptr::from_ref(stream), &mut *inner) };
        Ok((Taken(stream), inner))
    }
}

/// Room for bytes that are to be sent.
// What uses the stream is dropped before it is given back.
pub struct SendRoom(Local<Option<(Room<'static, TcpStream>, Taken)>>);

/// Bytes that have come, where they are.
pub struct ReceivedView(Local<Option<(View<'static, TcpStream>, Taken)>>);

impl Handle for SendRoom {
    type Object = Option<(Room<'static, TcpStream>, Taken)>;

    fn local(&self) -> &Local<Self::Object> {
        &self.0
    }
}

impl Handle for ReceivedView {
    type Object = Option<(View<'static, TcpStream>, Taken)>;

    fn local(&self) -> &Local<Self::Object> {
        &self.0
    }
}

/// One that is not in a ring has a buffer, which there must be memory for.
const MOST_ROOM: usize = 256 << 20;

fn gone() -> Error {
    Error::bad_argument("it was committed or consumed already")
}

/// Room for `len` bytes, at most 256 MiB (ULSOCK_TOO_LONG), in the ring itself if it has so much. Until it is committed or freed,
/// no other call can use the stream (ULSOCK_BUSY), and the stream may not be freed. It belongs to this thread.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_stream_reserve(
    stream: Option<&Stream>,
    len: usize,
    room: Option<&mut MaybeUninit<*mut SendRoom>>,
) -> Status {
    told(|| {
        give_object(room, || {
            if len > MOST_ROOM {
                let text = format!("a room has at most {MOST_ROOM} bytes");
                return Err(Error::new(Status::TooLong, text));
            }
            // SAFETY: the header forbids to free it meanwhile, and it is then kept.
            let (taken, inner) = unsafe { Taken::new(object(stream)?)? };
            Ok(SendRoom(Local::new(Some((inner.reserve(len), taken)))))
        })
    })
}

/// Whether it is in the ring, and not in a buffer of the stream's own.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_room_is_in_ring(room: Option<&SendRoom>) -> bool {
    let look = |room: &SendRoom| {
        room.0
            .shared(|room| Ok(room.as_ref().is_some_and(|(room, _)| room.is_in_ring())))
    };
    room.is_some_and(|room| look(room).unwrap_or(false))
}

/// Puts bytes into the room.
///
/// # Safety
/// `bytes` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_room_write_at(
    room: Option<&SendRoom>,
    at: usize,
    bytes: *const c_void,
    len: usize,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let bytes = unsafe { edge::bytes(bytes, len)? };
        object(room)?.0.with(|room| {
            let (room, _) = room.as_mut().ok_or_else(gone)?;
            Ok(room.write_at(at, bytes)?)
        })
    })
}

/// Sends the first `n` bytes, and frees nothing: the room is freed by ulsock_room_free(), also if this has failed.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_room_commit(room: Option<&SendRoom>, n: usize) -> Status {
    told(|| {
        object(room)?.0.with(|place| {
            can_wait()?;
            let (room, taken) = place.take().ok_or_else(gone)?;
            let committed = wait(room.commit(n));
            drop(taken);
            Ok(committed??)
        })
    })
}

/// What was not committed is not sent.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_room_free(room: Option<Box<SendRoom>>) {
    free(room);
}

/// What has come, where it is, as soon as there is something; `len` is 0 at the end of the stream. Until it is consumed or
/// freed, no other call can use the stream (ULSOCK_BUSY), and the stream may not be freed. It belongs to this thread.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_stream_view(
    stream: Option<&Stream>,
    view: Option<&mut MaybeUninit<*mut ReceivedView>>,
    len: Option<&mut MaybeUninit<usize>>,
) -> Status {
    told(|| {
        give_object(view, || {
            // SAFETY: the header forbids to free it meanwhile, and it is then kept.
            let (taken, inner) = unsafe { Taken::new(object(stream)?)? };
            let view = wait(inner.peek_in_place())??;
            give(len, view.len());
            Ok(ReceivedView(Local::new(Some((view, taken)))))
        })
    })
}

/// Copies bytes out of the view. The other end may still change them there: only what was copied out can be relied on.
///
/// # Safety
/// `room` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_view_read_at(
    view: Option<&ReceivedView>,
    at: usize,
    room: *mut c_void,
    len: usize,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let room = unsafe { edge::room(room, len)? };
        object(view)?.0.shared(|view| {
            let (view, _) = view.as_ref().ok_or_else(gone)?;
            Ok(view.read_at(at, room)?)
        })
    })
}

/// Takes the first `n` bytes off the stream.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_view_consume(view: Option<&ReceivedView>, n: usize) -> Status {
    told(|| {
        object(view)?.0.with(|place| {
            let (view, taken) = place.take().ok_or_else(gone)?;
            let consumed = view.consume(n);
            drop(taken);
            Ok(consumed?)
        })
    })
}

/// What was not consumed stays the next.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_view_free(view: Option<Box<ReceivedView>>) {
    free(view);
}
