//! The other end, and whether it is still there.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use native::message;

use crate::edge::{self, Address, give, give_object, object};
use crate::fiber::wait;
use crate::held::{Handle, Local, free};
use crate::status::{Result, Status, told};
use crate::writer::{Output, Writer};

/// Another endpoint, to which messages can be sent. Freeing it does not end the connection.
pub struct Peer(Local<message::Peer>);

impl Handle for Peer {
    type Object = message::Peer;

    fn local(&self) -> &Local<Self::Object> {
        &self.0
    }
}

impl Peer {
    pub fn new(peer: message::Peer) -> Peer {
        Peer(Local::new(peer))
    }

    pub fn inner(held: Option<&Peer>) -> Result<message::Peer> {
        object(held)?.0.shared(|peer| Ok(peer.clone()))
    }
}

/// Sends a message of one piece. Waits while the peer has not taken enough of what was sent before.
///
/// # Safety
/// `bytes` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_peer_send(
    peer: Option<&Peer>,
    number: u16,
    bytes: *const c_void,
    len: usize,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let bytes = unsafe { edge::bytes(bytes, len)? };
        object(peer)?
            .0
            .shared(|peer| Ok(wait(peer.send(number, bytes))??))
    })
}

/// Begins a message of any number of pieces.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_peer_begin(
    peer: Option<&Peer>,
    number: u16,
    message: Option<&mut MaybeUninit<*mut Writer>>,
) -> Status {
    told(|| {
        give_object(message, || {
            let message = Peer::inner(peer)?.begin(number)?;
            Ok(Writer::new(Output::Message(message)))
        })
    })
}

/// Its address; of one that has connected to this endpoint, that of its connection.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_peer_address(
    peer: Option<&Peer>,
    address: Option<&mut MaybeUninit<Address>>,
) -> Status {
    told(|| {
        give(address, Address::new(Peer::inner(peer)?.address()));
        Ok(())
    })
}

/// Waits until the peer is gone, and tells why: ULSOCK_PEER_GONE, or what else has ended it.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_peer_gone(peer: Option<&Peer>) -> Status {
    told(|| {
        let peer = Peer::inner(peer)?;
        Err(wait(peer.gone())?.into())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ulsock_peer_is_gone(peer: Option<&Peer>) -> bool {
    Peer::inner(peer).is_ok_and(|peer| peer.is_gone())
}

/// Whether two are the same: a peer can be held more than once.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_peer_is_same(one: Option<&Peer>, other: Option<&Peer>) -> bool {
    match (Peer::inner(one), Peer::inner(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// Ends the connection, after all that was sent. What has not been extracted of the peer's messages is lost.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_peer_close(peer: Option<&Peer>) -> Status {
    told(|| {
        let peer = Peer::inner(peer)?;
        wait(peer.close())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ulsock_peer_free(peer: Option<Box<Peer>>) {
    free(peer);
}
