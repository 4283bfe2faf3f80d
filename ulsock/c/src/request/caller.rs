//! Calls of a peer's services.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::time::Duration;

use native::request::{self, Requests};

use crate::edge::{self, no_place, nulled, object};
use crate::fiber::wait;
use crate::held::{Handle, Local, free};
use crate::reader::{Input, Reader, give_bytes};
use crate::status::{Result, Status, told};
use crate::writer::{Output, Writer};

/// A peer whose services can be called.
pub struct Caller(Local<Calls>);

pub struct Calls {
    caller: request::Caller,
    /// Served while a call waits.
    requests: Rc<Requests>,
}

impl Handle for Caller {
    type Object = Calls;

    fn local(&self) -> &Local<Calls> {
        &self.0
    }
}

impl Caller {
    pub fn new(caller: request::Caller, requests: &Rc<Requests>) -> Caller {
        Caller(Local::new(Calls {
            caller,
            requests: requests.clone(),
        }))
    }

    /// The caller with so much time for each of its calls; 0: as long as it takes.
    fn inner(held: Option<&Caller>, milliseconds: u32) -> Result<(request::Caller, Rc<Requests>)> {
        object(held)?.0.shared(|calls| {
            let caller = match milliseconds {
                0 => calls.caller.clone(),
                time => calls.caller.within(Duration::from_millis(time.into())),
            };
            Ok((caller, calls.requests.clone()))
        })
    }
}

/// Sends a request and waits for its reply, for at most so many milliseconds (0: as long as it takes): ULSOCK_DEADLINE_EXCEEDED.
/// The program gives `reply` to free(). The endpoint is served meanwhile.
///
/// # Safety
/// `request` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_caller_call(
    caller: Option<&Caller>,
    service: u16,
    request: *const c_void,
    len: usize,
    milliseconds: u32,
    reply: Option<&mut MaybeUninit<*mut c_void>>,
    reply_len: Option<&mut MaybeUninit<usize>>,
) -> Status {
    told(|| {
        let reply = reply.map(nulled);
        // SAFETY: the caller's word.
        let request = unsafe { edge::bytes(request, len)? };
        let (caller, requests) = Caller::inner(caller, milliseconds)?;
        let call = requests.while_served(caller.call(service, request));
        give_bytes(&wait(call)??, reply, reply_len)
    })
}

/// Begins a call whose request and reply are streams. Its handler is started at once. Freeing `reply` before its end cancels the
/// call.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_caller_open(
    caller: Option<&Caller>,
    service: u16,
    milliseconds: u32,
    request: Option<&mut MaybeUninit<*mut Writer>>,
    reply: Option<&mut MaybeUninit<*mut Reader>>,
) -> Status {
    told(|| {
        let places = (request.map(nulled), reply.map(nulled));
        let (Some(request), Some(reply)) = places else {
            return Err(no_place());
        };
        let (caller, requests) = Caller::inner(caller, milliseconds)?;
        let (writer, reader) = wait(requests.while_served(caller.open(service)))??;
        let writer = Writer::new(Output::Request(writer, requests.clone()));
        let reader = Reader::new(Input::Reply(reader, caller, requests));
        *request = Box::into_raw(Box::new(writer));
        *reply = Box::into_raw(Box::new(reader));
        Ok(())
    })
}

/// Freeing it does not end the connection.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_caller_free(caller: Option<Box<Caller>>) {
    free(caller);
}
