//! Requests between endpoints, on top of [messages](crate::message): a call is a message, and so is its reply. Either can be
//! a stream, both at the same time.
//!
//! A call can have a deadline, which goes along with it, and is cancelled by being dropped: the handler at the other end is
//! dropped then. A peer that is gone ends its calls at once, in both directions.

mod call;
mod caller;
mod codec;
mod error;
mod fate;
mod header;
mod peers;
mod reply;
mod requests;
mod serve;
mod state;
mod timer;

pub use call::{ReplyReader, RequestWriter};
pub use caller::Caller;
pub use codec::{Decode, Encode};
pub use error::{Failure, RequestError};
pub use reply::{ReplyWriter, RequestReader};
pub use requests::{Limits, Requests};
