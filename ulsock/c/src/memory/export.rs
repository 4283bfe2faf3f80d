//! The end that exports regions.

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;

use native::memory::{self, Fires, RegionKey};

use super::queue::WireEvents;
use crate::edge::{self, Address, give, give_object, object};
use crate::status::{Error, Status, told};

/// Exports regions at an address. Any thread may use it.
pub struct Exporter(memory::Exporter);

/// Memory that others can write who have its key. Any thread may use it.
pub struct Region(memory::Region);

/// A wire on a range of a region.
pub struct Wire(memory::Tripwire);

/// What an importer has to know of a region. It is a secret: a program gives it to whom it trusts with the region.
#[repr(C)]
pub struct Key {
    pub bytes: [u8; KEY],
}

/// Bytes of a key.
pub const KEY: usize = 38;

const _: () = assert!(KEY == RegionKey::LEN);

/// Listens at an address for importers; a thread of the library serves them.
///
/// # Safety
/// `at` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_exporter_bind(
    at: *const c_char,
    exporter: Option<&mut MaybeUninit<*mut Exporter>>,
) -> Status {
    told(|| {
        give_object(exporter, || {
            // SAFETY: the caller's word.
            let at = unsafe { edge::text(at)? };
            Ok(Exporter(memory::Exporter::bind(at)?))
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ulsock_exporter_address(
    exporter: Option<&Exporter>,
    address: Option<&mut MaybeUninit<Address>>,
) -> Status {
    told(|| {
        give(address, Address::new(object(exporter)?.0.local_addr()));
        Ok(())
    })
}

/// It goes on as long as one of its regions is held.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_exporter_free(exporter: Option<Box<Exporter>>) {
    drop(exporter);
}

/// Makes a region of so many bytes, all zero, whose wires report to these events. Its memory is taken from the system now.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_exporter_export(
    exporter: Option<&Exporter>,
    size: usize,
    events: Option<&WireEvents>,
    region: Option<&mut MaybeUninit<*mut Region>>,
) -> Status {
    told(|| {
        give_object(region, || {
            let (exporter, events) = (object(exporter)?, object(events)?);
            events.with(|queue| Ok(Region(exporter.0.export(size, queue)?)))
        })
    })
}

/// What an importer needs.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_region_key(
    region: Option<&Region>,
    key: Option<&mut MaybeUninit<Key>>,
) -> Status {
    told(|| {
        let bytes = object(region)?.0.key().to_bytes();
        give(key, Key { bytes });
        Ok(())
    })
}

/// The same region, where others reach its exporter by another address: one that listens at all addresses, say.
///
/// # Safety
/// `address` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_key_set_address(
    key: Option<&mut Key>,
    address: *const c_char,
) -> Status {
    told(|| {
        let key = key.ok_or_else(|| Error::bad_argument("the key is a null pointer"))?;
        // SAFETY: the caller's word.
        let address = edge::numeric(unsafe { edge::text(address)? })?;
        key.bytes = RegionKey::from_bytes(&key.bytes)?.at(address).to_bytes();
        Ok(())
    })
}

/// Copies bytes out of the region. Importers may change them there at any time: only what was copied out can be relied on.
///
/// # Safety
/// `room` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_region_read(
    region: Option<&Region>,
    offset: usize,
    room: *mut c_void,
    len: usize,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let room = unsafe { edge::room(room, len)? };
        Ok(object(region)?.0.read(offset, room)?)
    })
}

/// Puts bytes there. This trips no wire.
///
/// # Safety
/// `bytes` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_region_write(
    region: Option<&Region>,
    offset: usize,
    bytes: *const c_void,
    len: usize,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let bytes = unsafe { edge::bytes(bytes, len)? };
        Ok(object(region)?.0.write(offset, bytes)?)
    })
}

/// The word of eight bytes at a multiple of eight. Who has read it sees what its writer had written before.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_region_load(
    region: Option<&Region>,
    offset: usize,
    word: Option<&mut MaybeUninit<u64>>,
) -> Status {
    told(|| {
        give(word, object(region)?.0.load(offset)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ulsock_region_store(region: Option<&Region>, offset: usize, word: u64) -> Status {
    told(|| Ok(object(region)?.0.store(offset, word)?))
}

/// From now on writes into this range fire the wire, each when it is complete; or only the first, until it is set again.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_region_wire(
    region: Option<&Region>,
    offset: usize,
    len: usize,
    once: bool,
    wire: Option<&mut MaybeUninit<*mut Wire>>,
) -> Status {
    told(|| {
        let fires = if once { Fires::Once } else { Fires::Always };
        let end = offset.saturating_add(len);
        give_object(wire, || {
            Ok(Wire(object(region)?.0.wire(offset..end, fires)?))
        })
    })
}

/// By which its events tell it: no other wire of this process has the same.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_wire_number(wire: Option<&Wire>) -> u64 {
    wire.map_or(0, |wire| wire.0.id().number())
}

/// Sets a wire again that fires once. What was written meanwhile can be read now.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_wire_rearm(wire: Option<&Wire>) -> Status {
    told(|| Ok(object(wire)?.0.rearm()?))
}

/// It fires no more.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_wire_free(wire: Option<Box<Wire>>) {
    drop(wire);
}

/// Revokes the region: writes into it fail with ULSOCK_REVOKED.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_region_free(region: Option<Box<Region>>) {
    drop(region);
}
