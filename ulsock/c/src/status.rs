//! What every function of the library returns, and the words that go with it.
//!
//! Inside, calls have a `Result` with the library's own [`Error`]; at the edge [`told`] makes a status of it.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;
use std::io;

use native::InPlaceError;
use native::group::GroupError;
use native::memory::MemoryError;
use native::message::MessageError;
use native::names::NameError;
use native::request::RequestError;

/// How a call went. What has failed is told in words by ulsock_error_text().
///
/// cbindgen:rename-all=QualifiedScreamingSnakeCase
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ulsock {
    Ok = 0,
    /// Nothing has come within the time, or without waiting; or there is no room.
    Nothing = 1,
    /// A null pointer, a text that is not UTF-8, an address or a number that makes no sense.
    BadArgument = 2,
    /// The object belongs to another thread.
    WrongThread = 3,
    /// Another call, of another task or thread, is at work with the object.
    Busy = 4,
    /// A call that may have to wait was made where nothing can: see ulsock_endpoint_on_arrival().
    CannotWait = 5,
    /// The task, or the handler, is to end: whoever it worked for has gone. All further calls that wait return this, too.
    Cancelled = 6,
    /// The object was made by the parent of this process.
    Forked = 7,
    /// There is no memory for it.
    NoMemory = 8,
    /// The system has refused it: see ulsock_error_number().
    System = 9,

    /// The stream has ended before all bytes had come.
    EndOfStream = 20,
    /// Bytes that do not lie in the room, the view or the region; or a word that is not aligned.
    OutOfRange = 21,
    /// Another process, which shares the connection since a fork, has sent since the room was reserved.
    Overtaken = 22,

    /// The other end has closed the connection, or has died.
    PeerGone = 40,
    /// The other end has said what no program of ulsock's says.
    Nonsense = 41,
    /// The other end has no handler of this number. Told once.
    NoHandler = 42,
    /// The sender has dropped the message before its end.
    Aborted = 43,
    /// The message has ended before all bytes had come.
    TooShort = 44,
    /// More bytes than there can be.
    TooLong = 45,
    /// Messages of this endpoint are being extracted already.
    Extracting = 46,
    /// As many as there can be.
    TooMany = 47,

    /// The time that the call had is over. The request may have been handled.
    DeadlineExceeded = 60,
    /// The other end has no such service.
    NoService = 61,
    /// The handler says that it has failed: see ulsock_error_number() for its code.
    Failed = 62,
    /// The handler could not be given the request.
    BadRequest = 63,
    /// The handler has ended before the end of its reply.
    NoReply = 64,
    /// The reply cannot be used: it is longer than bodies can be.
    BadReply = 65,

    /// A service has letters, digits, -, _ and ., and begins with a letter or a digit.
    BadName = 80,
    /// The address has no port.
    NoPort = 81,
    /// A living process of this user has the name: see ulsock_error_number() for its pid.
    Taken = 82,
    /// Nobody has the name.
    NotFound = 83,
    /// An environment variable, or the run directory, is wrong.
    Configuration = 84,
    /// No descriptors, or no inotify instances, are left.
    NoDescriptors = 85,

    /// The buffer is too small for the next message: see ulsock_error_number() for its length. It stays the next.
    NoRoom = 100,
    /// A ring has a power of two of bytes, 4 KiB to 256 MiB.
    BadRing = 101,
    /// The group has ended for this member.
    Ended = 102,

    /// A region cannot have this size.
    BadSize = 120,
    /// These bytes are no key of a region.
    BadKey = 121,
    /// The exporter has no region with this key.
    WrongKey = 122,
    /// The exporter has dropped the region.
    Revoked = 123,
    /// At the address of the key is no exporter.
    NoExporter = 124,
}

/// The result of a call.
pub type Status = Ulsock;

/// Why a call was not done.
#[derive(Debug)]
pub struct Error {
    status: Status,
    text: String,
    number: i64,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(status: Status, text: impl Display) -> Error {
        let text = text.to_string();
        Error {
            status,
            text,
            number: 0,
        }
    }

    fn numbered(mut self, number: impl TryInto<i64>) -> Error {
        self.number = number.try_into().unwrap_or(i64::MAX);
        self
    }

    pub fn bad_argument(text: impl Display) -> Error {
        Error::new(Status::BadArgument, text)
    }

    pub fn cannot_wait() -> Error {
        let text = "this call may have to wait, and nothing can wait here";
        Error::new(Status::CannotWait, text)
    }

    pub fn busy() -> Error {
        Error::new(Status::Busy, "another call is at work with this object")
    }
}

struct Last {
    text: CString,
    number: i64,
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// Runs a call, keeps the words if it has failed, and tells how it went.
pub fn told(call: impl FnOnce() -> Result<()>) -> Status {
    match call() {
        Ok(()) => Status::Ok,
        Err(error) => error.told(),
    }
}

/// The same for calls that may find nothing, which is no failure.
pub fn told_if_any(call: impl FnOnce() -> Result<bool>) -> Status {
    match call() {
        Ok(true) => Status::Ok,
        Ok(false) => Status::Nothing,
        Err(error) => error.told(),
    }
}

impl Error {
    fn told(self) -> Status {
        let mut text = self.text.into_bytes();
        text.retain(|byte| *byte != 0);
        let last = Last {
            text: CString::new(text).unwrap_or_default(),
            number: self.number,
        };
        // While a thread ends there is no place for words.
        let _ = LAST.try_with(|place| place.replace(Some(last)));
        self.status
    }
}

/// What went wrong in the last call of this thread that has failed, in words. Valid until the next one fails.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_error_text() -> *const c_char {
    let text = LAST.try_with(|last| match &*last.borrow() {
        Some(last) => last.text.as_ptr(),
        None => c"".as_ptr(),
    });
    text.unwrap_or(c"".as_ptr())
}

/// The number that belongs to it: errno of ULSOCK_SYSTEM, the code of ULSOCK_FAILED, the pid of ULSOCK_TAKEN, the length of
/// ULSOCK_NO_ROOM; else 0.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_error_number() -> i64 {
    let number = LAST.try_with(|last| last.borrow().as_ref().map_or(0, |last| last.number));
    number.unwrap_or(0)
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        let status = match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Status::PeerGone,
            io::ErrorKind::UnexpectedEof => Status::EndOfStream,
            io::ErrorKind::InvalidInput => Status::BadArgument,
            io::ErrorKind::OutOfMemory => Status::NoMemory,
            io::ErrorKind::Unsupported => Status::Forked,
            _ => Status::System,
        };
        let number = error.raw_os_error().unwrap_or(0);
        Error::new(status, error).numbered(number)
    }
}

impl From<InPlaceError> for Error {
    fn from(error: InPlaceError) -> Error {
        let status = match error {
            InPlaceError::OutOfRange(_) => Status::OutOfRange,
            InPlaceError::Forked => Status::Forked,
            InPlaceError::Overtaken => Status::Overtaken,
            InPlaceError::Connection(error) => return error.into(),
        };
        Error::new(status, error)
    }
}

impl From<native::OutOfRange> for Error {
    fn from(range: native::OutOfRange) -> Error {
        Error::new(Status::OutOfRange, range)
    }
}

impl From<MessageError> for Error {
    fn from(error: MessageError) -> Error {
        let (status, number) = match &error {
            MessageError::PeerGone => (Status::PeerGone, 0),
            MessageError::Connection(error) => (Status::System, error.raw_os_error().unwrap_or(0)),
            MessageError::Nonsense(_) => (Status::Nonsense, 0),
            MessageError::NoHandler(_) => (Status::NoHandler, 0),
            MessageError::Aborted => (Status::Aborted, 0),
            MessageError::TooShort { .. } => (Status::TooShort, 0),
            MessageError::TooLong { .. } => (Status::TooLong, 0),
            MessageError::Extracting => (Status::Extracting, 0),
            MessageError::TooMany => (Status::TooMany, 0),
        };
        Error::new(status, error).numbered(number)
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Error {
        let (status, number) = match &error {
            RequestError::PeerGone => (Status::PeerGone, 0),
            RequestError::DeadlineExceeded => (Status::DeadlineExceeded, 0),
            RequestError::NoService(_) => (Status::NoService, 0),
            RequestError::Failed(failure) => (Status::Failed, failure.code),
            RequestError::BadRequest(_) => (Status::BadRequest, 0),
            RequestError::NoReply => (Status::NoReply, 0),
            RequestError::BadReply(_) => (Status::BadReply, 0),
            RequestError::Encode(_) => (Status::BadArgument, 0),
            RequestError::Cancelled => (Status::Cancelled, 0),
            RequestError::TooMany => (Status::TooMany, 0),
            RequestError::Message(error) => return error.clone().into(),
        };
        Error::new(status, error).numbered(number)
    }
}

impl From<NameError> for Error {
    fn from(error: NameError) -> Error {
        let (status, number) = match error {
            NameError::BadName => (Status::BadName, 0),
            NameError::NoPort => (Status::NoPort, 0),
            NameError::Taken { pid } => (Status::Taken, pid),
            NameError::TooMany => (Status::TooMany, 0),
            NameError::NotFound => (Status::NotFound, 0),
            NameError::Configuration(_) | NameError::RunDirectory(_) | NameError::Squatted => {
                (Status::Configuration, 0)
            }
            NameError::NoDescriptors => (Status::NoDescriptors, 0),
            NameError::Os(error) => return error.into(),
        };
        Error::new(status, error).numbered(number)
    }
}

impl From<GroupError> for Error {
    fn from(error: GroupError) -> Error {
        let (status, number) = match error {
            GroupError::Name(error) => return error.into(),
            GroupError::Os(error) => return error.into(),
            GroupError::TooLong { .. } => (Status::TooLong, 0),
            GroupError::NoRoom { needed } => (Status::NoRoom, needed),
            GroupError::BadRing => (Status::BadRing, 0),
            GroupError::Forked => (Status::Forked, 0),
            GroupError::Ended => (Status::Ended, 0),
        };
        Error::new(status, error).numbered(number)
    }
}

impl From<MemoryError> for Error {
    fn from(error: MemoryError) -> Error {
        let status = match error {
            MemoryError::OutOfRange => Status::OutOfRange,
            MemoryError::BadSize => Status::BadSize,
            MemoryError::BadKey => Status::BadKey,
            MemoryError::WrongKey => Status::WrongKey,
            MemoryError::Revoked => Status::Revoked,
            MemoryError::PeerGone => Status::PeerGone,
            MemoryError::NoExporter => Status::NoExporter,
            MemoryError::Nonsense => Status::Nonsense,
            MemoryError::Forked => Status::Forked,
            MemoryError::TooManyWires => Status::TooMany,
            MemoryError::NoMemory => Status::NoMemory,
            MemoryError::TimedOut => Status::Nothing,
            MemoryError::Os(kind) => return io::Error::from(kind).into(),
        };
        Error::new(status, error)
    }
}
