//! Endpoints: who can be connected to, and what is done with what comes.

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::net::ToSocketAddrs;
use std::rc::Rc;

use native::message;

use crate::edge::{self, Address, give, give_object, object};
use crate::fiber::{Fiber, callback, take_stack, wait};
use crate::held::{Handle, Local, free};
use crate::peer::Peer;
use crate::reader::{Input, Reader};
use crate::status::{Error, Result, Status, told, told_if_any};

/// Where messages are sent from, and received. It belongs to the thread that has made it.
pub struct Endpoint(Local<Rc<message::Endpoint>>);

impl Handle for Endpoint {
    type Object = Rc<message::Endpoint>;

    fn local(&self) -> &Local<Self::Object> {
        &self.0
    }
}

/// An endpoint that can only connect.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_endpoint_new(endpoint: Option<&mut MaybeUninit<*mut Endpoint>>) -> Status {
    told(|| give_object(endpoint, || Ok(held(message::Endpoint::new()))))
}

/// An endpoint that others can connect to. `window` is what each peer may have sent that no handler has taken yet; 0: 256 KiB.
///
/// # Safety
/// `at` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_endpoint_bind(
    at: *const c_char,
    window: usize,
    endpoint: Option<&mut MaybeUninit<*mut Endpoint>>,
) -> Status {
    told(|| {
        give_object(endpoint, || {
            // SAFETY: the caller's word.
            let at = unsafe { edge::text(at)? };
            let bound = match window {
                0 => message::Endpoint::bind(at)?,
                window => message::Endpoint::bind_with_window(at, window)?,
            };
            Ok(held(bound))
        })
    })
}

fn held(endpoint: message::Endpoint) -> Endpoint {
    Endpoint(Local::new(Rc::new(endpoint)))
}

impl Endpoint {
    /// For as long as a call takes: handlers use it meanwhile.
    pub fn inner(held: Option<&Endpoint>) -> Result<Rc<message::Endpoint>> {
        object(held)?.0.shared(|endpoint| Ok(endpoint.clone()))
    }
}

/// Where others can connect to; an empty text for one that can only connect.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_endpoint_address(
    endpoint: Option<&Endpoint>,
    address: Option<&mut MaybeUninit<Address>>,
) -> Status {
    told(|| {
        let local = Endpoint::inner(endpoint)?.local_addr();
        give(address, local.map_or(Address::none(), Address::new));
        Ok(())
    })
}

/// From now on messages of this number, below 0xff00, are handled so. A handler begins when the first bytes of its message have
/// come, has a stack of its own, and may wait: others run meanwhile. It runs while somebody extracts. The message is lent to it: it
/// reads as much as it likes, and what it has not read when it returns is skipped.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_endpoint_handle(
    endpoint: Option<&Endpoint>,
    number: u16,
    handler: Option<extern "C" fn(user: *mut c_void, message: &Reader)>,
    user: *mut c_void,
) -> Status {
    told(|| {
        let handler = handler.ok_or_else(|| Error::bad_argument("no handler"))?;
        if number >= message::RESERVED {
            return Err(Error::bad_argument("numbers from 0xff00 on are reserved"));
        }
        Endpoint::inner(endpoint)?.handle(number, move |message| async move {
            let stack = take_stack().await;
            let run = move || handler(user, &Reader::lent(Input::Message(message)));
            Fiber::new(stack, run).await;
            Ok(())
        });
        Ok(())
    })
}

/// From now on this is called with each peer that has connected to this endpoint, before its first message is handled. The peer
/// is the program's, who frees it. In the call nothing can wait (ULSOCK_CANNOT_WAIT): it may begin tasks.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_endpoint_on_arrival(
    endpoint: Option<&Endpoint>,
    function: Option<extern "C" fn(user: *mut c_void, peer: Box<Peer>)>,
    user: *mut c_void,
) -> Status {
    told(|| {
        let function = function.ok_or_else(|| Error::bad_argument("no function"))?;
        Endpoint::inner(endpoint)?.on_arrival(move |peer| {
            callback(|| function(user, Box::new(Peer::new(peer))));
        });
        Ok(())
    })
}

/// Connects to another endpoint.
///
/// # Safety
/// `to` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_endpoint_connect(
    endpoint: Option<&Endpoint>,
    to: *const c_char,
    peer: Option<&mut MaybeUninit<*mut Peer>>,
) -> Status {
    told(|| {
        give_object(peer, || {
            // SAFETY: the caller's word.
            let to = unsafe { edge::text(to)? };
            let endpoint = Endpoint::inner(endpoint)?;
            connect(&endpoint, to).map(Peer::new)
        })
    })
}

/// To the first address of the name that answers.
pub fn connect(endpoint: &message::Endpoint, to: &str) -> Result<message::Peer> {
    let mut last = Error::bad_argument("the name has no address");
    for address in to.to_socket_addrs()? {
        match wait(endpoint.connect(address))? {
            Ok(peer) => return Ok(peer),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

/// Hands at most `most` bytes of what has come to handlers, and tells how many they have taken; waits until there is something.
/// An endpoint that does not extract holds its senders back.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_endpoint_extract(
    endpoint: Option<&Endpoint>,
    most: usize,
    taken: Option<&mut MaybeUninit<usize>>,
) -> Status {
    told(|| {
        let endpoint = Endpoint::inner(endpoint)?;
        give(taken, wait(endpoint.extract(most))??);
        Ok(())
    })
}

/// The same without waiting: ULSOCK_NOTHING if nothing has come.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_endpoint_extract_now(
    endpoint: Option<&Endpoint>,
    most: usize,
    taken: Option<&mut MaybeUninit<usize>>,
) -> Status {
    told_if_any(|| {
        let endpoint = Endpoint::inner(endpoint)?;
        // In the thread's loop, which its handlers wait in.
        let done = wait(async { endpoint.extract_now(most) })??;
        give(taken, done.unwrap_or(0));
        Ok(done.is_some())
    })
}

/// Extracts until its task is cancelled, or something fails.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_endpoint_serve(endpoint: Option<&Endpoint>) -> Status {
    told(|| {
        let endpoint = Endpoint::inner(endpoint)?;
        Ok(wait(endpoint.serve())??)
    })
}

/// Closes the endpoint and all its connections; its handlers are cancelled. If it has requests: when they are freed, too, with
/// their callers and the streams of these.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_endpoint_free(endpoint: Option<Box<Endpoint>>) {
    free(endpoint);
}
