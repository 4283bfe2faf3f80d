//! The services of an endpoint.

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::rc::Rc;

use native::request::{self, Failure, Limits, ReplyWriter, RequestReader};

use super::caller::Caller;
use crate::edge::{self, give_object, object};
use crate::endpoint::{Endpoint, connect};
use crate::fiber::{Fiber, take_stack};
use crate::held::{Handle, Local, free};
use crate::peer::Peer;
use crate::reader::{Input, Reader};
use crate::status::{Error, Result, Status, told};
use crate::writer::{Output, Writer};

/// The requests of an endpoint, in both directions.
pub struct Requests(Local<Served>);

/// With the endpoint that it serves while it waits.
pub struct Served {
    requests: Rc<request::Requests>,
    endpoint: Rc<native::message::Endpoint>,
}

impl Handle for Requests {
    type Object = Served;

    fn local(&self) -> &Local<Served> {
        &self.0
    }
}

type CallHandler = extern "C" fn(user: *mut c_void, request: &Reader, reply: &Writer);

/// The requests of an endpoint, which can have them once. At most `calls` handlers run at a time for each peer (0: 1024); a body
/// that is received in one piece has at most `body` bytes (0: 16 MiB).
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_requests_new(
    endpoint: Option<&Endpoint>,
    calls: usize,
    body: usize,
    requests: Option<&mut MaybeUninit<*mut Requests>>,
) -> Status {
    told(|| {
        let usual = Limits::default();
        let or = |given, usual| if given == 0 { usual } else { given };
        let limits = Limits {
            calls: or(calls, usual.calls),
            body: or(body, usual.body),
        };
        give_object(requests, || {
            let endpoint = Endpoint::inner(endpoint)?;
            let requests = request::Requests::with_limits(&endpoint, limits)
                .map_err(|error| Error::new(Status::BadArgument, error))?;
            let requests = Rc::new(requests);
            Ok(Requests(Local::new(Served { requests, endpoint })))
        })
    })
}

/// From now on calls of this service are handled so: the handler reads the request, writes the reply, and ends it. Both are lent
/// to it until it returns. Each handler has a stack of its own, and may wait. It runs while the
/// endpoint is served, or while somebody calls. It is cancelled when its caller is gone, has cancelled, or has no time left.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_requests_handle(
    requests: Option<&Requests>,
    service: u16,
    handler: Option<extern "C" fn(user: *mut c_void, request: &Reader, reply: &Writer)>,
    user: *mut c_void,
) -> Status {
    told(|| {
        let handler = handler.ok_or_else(|| Error::bad_argument("no handler"))?;
        let handle = move |request, reply| handled(handler, user, request, reply);
        object(requests)?.0.shared(|served| {
            served.requests.stream(service, handle);
            Ok(())
        })
    })
}

async fn handled(
    handler: CallHandler,
    user: *mut c_void,
    request: RequestReader,
    reply: ReplyWriter,
) -> std::result::Result<(), Failure> {
    let stack = take_stack().await;
    let request = Reader::lent(Input::Request(request));
    let reply = Rc::new(Writer::lent(Output::Reply(reply)));
    let own = reply.clone();
    Fiber::new(stack, move || handler(user, &request, &own)).await;
    match reply.take_failure() {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

/// Connects to an endpoint with services.
///
/// # Safety
/// `to` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_requests_connect(
    requests: Option<&Requests>,
    to: *const c_char,
    caller: Option<&mut MaybeUninit<*mut Caller>>,
) -> Status {
    told(|| {
        give_object(caller, || {
            // SAFETY: the caller's word.
            let to = unsafe { edge::text(to)? };
            let (requests, endpoint) = Requests::inner(requests)?;
            let peer = connect(&endpoint, to)?;
            Ok(Caller::new(requests.caller(&peer), &requests))
        })
    })
}

/// Calls a peer of the endpoint, whoever has connected to whom.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_requests_caller(
    requests: Option<&Requests>,
    peer: Option<&Peer>,
    caller: Option<&mut MaybeUninit<*mut Caller>>,
) -> Status {
    told(|| {
        give_object(caller, || {
            let (requests, _) = Requests::inner(requests)?;
            let peer = Peer::inner(peer)?;
            Ok(Caller::new(requests.caller(&peer), &requests))
        })
    })
}

/// No call is handled any more when all callers and streams of it are freed, too.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_requests_free(requests: Option<Box<Requests>>) {
    free(requests);
}

type Parts = (Rc<request::Requests>, Rc<native::message::Endpoint>);

impl Requests {
    fn inner(held: Option<&Requests>) -> Result<Parts> {
        let parts = |served: &Served| Ok((served.requests.clone(), served.endpoint.clone()));
        object(held)?.0.shared(parts)
    }
}
