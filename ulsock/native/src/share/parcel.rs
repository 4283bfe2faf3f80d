//! What passes between who fetches and who gives: a secret there, descriptors back. The other end of a channel may be anybody:
//! nothing here waits, and of an answer that makes no sense no descriptor stays open.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use os::fds::{InternalFd, Transient};
use rendezvous::channel::Channel;
use rustix::cmsg_space;
use rustix::io::{self, Errno};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, send, sendmsg,
};

use super::error::FetchError;
use super::ticket::Secret;

/// Descriptors that a ticket stands for at most.
pub const MOST: usize = 8;

/// No message of the control channels begins so: a ticket that names another mailbox is told to nobody who understands it.
const ASK: [u8; 8] = *b"fetch 01";
const GIVE: [u8; 8] = *b"giving 1";

/// Not to wait, and no signal if the other end is gone.
const AT_ONCE: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

pub fn ask(channel: &Channel, secret: &Secret) -> io::Result<()> {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&ASK);
    bytes[8..].copy_from_slice(&secret.0);
    send(channel, &bytes, AT_ONCE).map(drop)
}

/// What somebody asks for. EAGAIN: he has not yet asked; any other error is his end.
pub fn asked(channel: &Channel) -> io::Result<Secret> {
    let mut bytes = [0; 25];
    let (_, len) = recv(channel, &mut bytes, RecvFlags::DONTWAIT)?;
    let asked = bytes[..len.min(25)].split_first_chunk::<8>();
    let secret = asked.filter(|(head, _)| **head == ASK);
    let secret = secret.and_then(|(_, rest)| rest.try_into().ok());
    secret.map(Secret).ok_or(Errno::BADMSG)
}

pub fn give(channel: &Channel, fds: &[InternalFd]) -> io::Result<()> {
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(Errno::TOOMANYREFS);
    }
    sendmsg(channel, &[IoSlice::new(&GIVE)], &mut control, AT_ONCE).map(drop)
}

/// The descriptors that were asked for. `None`: no answer has come yet.
pub fn take(channel: &Channel, count: usize) -> Result<Option<Vec<InternalFd>>, FetchError> {
    let mut bytes = [0; GIVE.len() + 1];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let mut room = [IoSliceMut::new(&mut bytes)];
    let got = match recvmsg(channel, &mut room, &mut control, flags) {
        Err(Errno::AGAIN) => return Ok(None),
        other => other?,
    };
    let mut fds = Vec::new();
    for item in control.drain() {
        if let RecvAncillaryMessage::ScmRights(items) = item {
            fds.extend(items.map(Transient::new));
        }
    }
    if got.bytes == 0 {
        return Err(FetchError::Refused);
    }
    let cut = ReturnFlags::TRUNC | ReturnFlags::CTRUNC;
    let is_whole = !got.flags.intersects(cut) && bytes[..got.bytes] == GIVE;
    if !is_whole || fds.len() != count {
        return Err(FetchError::Nonsense);
    }
    let kept: io::Result<_> = fds.into_iter().map(Transient::into_high).collect();
    Ok(Some(kept?))
}
