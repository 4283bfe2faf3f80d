//! The interface of the kernel module `ulnic`, word by word as in `kmod/ulnic.h`, which says what each
//! of them means. A test (`tests/uapi.rs`) compares the two by means of a C compiler.

/// Of the interface, as [`Info::version`] has it.
pub const VERSION: u64 = 1;

/// Virtual machines of one group.
pub const SLOTS_MAX: usize = 16;
/// Bound endpoints of one virtual machine.
pub const ENDPOINTS_MAX: usize = 256;
/// Connections of one endpoint.
pub const CONNECTIONS_MAX: usize = 64;
/// Tripwires of one endpoint.
pub const WIRES_MAX: usize = 64;
/// Bytes of an aperture.
pub const APERTURE_MAX: u64 = 1 << 32;

/// Where an endpoint's own aperture is mapped.
pub const APERTURE_OFFSET: u64 = 0;

/// Where a connection's aperture is mapped.
pub const fn connection_offset(connection: u64) -> u64 {
    (connection + 1) << 32
}

pub const SERVICE_NONE: u64 = 0;
/// The endpoint of a virtual machine's nicd.
pub const SERVICE_NICD: u64 = 1;
/// From here on services need no privilege.
pub const SERVICE_OPEN: u64 = 1024;

/// Among [`Info::features`]: other virtual machines can be rung.
pub const FEATURE_DOORBELL: u64 = 1;

/// Among [`Tripwire::flags`].
pub const TRIPWIRE_DISARM: u64 = 1;

/// The structure of one of the module's ioctls.
///
/// # Safety
/// The ioctl of this number reads and writes a structure of this size, and any answer is a value of it.
pub unsafe trait Ioctl {
    /// The ioctl's number.
    const REQUEST: u64;
}

/// Gives a structure its name, its words and its ioctl's number.
macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident = $direction:ident $number:literal
        { $($(#[$word_doc:meta])* $word:ident: $type:ty,)* })*) => { $(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            /// In bytes, of this structure.
            pub size: u64,
            pub flags: u64,
            $($(#[$word_doc])* pub $word: $type,)*
        }

        // SAFETY: the number names the size of this structure, which has words of 64 bits and no padding.
        unsafe impl Ioctl for $name {
            const REQUEST: u64 = $direction($number, size_of::<$name>());
        }

        impl Default for $name {
            /// All zeros but for its size.
            fn default() -> $name {
                $name {
                    size: size_of::<$name>() as u64,
                    flags: 0,
                    $($word: Zero::ZERO,)*
                }
            }
        }
    )* };
}

trait Zero {
    const ZERO: Self;
}

impl Zero for u64 {
    const ZERO: u64 = 0;
}

impl<const N: usize> Zero for [u64; N] {
    const ZERO: [u64; N] = [0; N];
}

/// As the kernel numbers an ioctl (include/uapi/asm-generic/ioctl.h).
const fn request(direction: u64, number: u64, size: usize) -> u64 {
    direction << 30 | (size as u64) << 16 | (b'v' as u64) << 8 | number
}

/// The kernel reads the structure.
const fn write(number: u64, size: usize) -> u64 {
    request(1, number, size)
}

/// The kernel reads the structure and answers in it.
const fn both(number: u64, size: usize) -> u64 {
    request(3, number, size)
}

structures! {
    /// What there is.
    Info = both 0x20 {
        version: u64,
        features: u64,
        slot: u64,
        slots: u64,
        generation: u64,
        partition: u64,
        page: u64,
        reserved: [u64; 7],
        incarnation: [u64; SLOTS_MAX],
    }

    /// Gets an aperture.
    Bind = both 0x21 {
        length: u64,
        service: u64,
        endpoint: u64,
        key: u64,
        reserved: [u64; 2],
    }

    /// Finds a service's endpoint.
    Lookup = both 0x22 {
        slot: u64,
        service: u64,
        endpoint: u64,
        key: u64,
        incarnation: u64,
        reserved: u64,
    }

    /// Gets the right to map another's aperture.
    Connect = both 0x23 {
        slot: u64,
        endpoint: u64,
        key: u64,
        connection: u64,
        offset: u64,
        length: u64,
        incarnation: u64,
        reserved: [u64; 3],
    }

    /// Gives it back.
    Disconnect = write 0x24 {
        connection: u64,
        reserved: u64,
    }

    /// Wakes the endpoint at a connection's other end.
    Ring = write 0x25 {
        connection: u64,
        reserved: u64,
    }

    /// Arms a tripwire.
    Tripwire = write 0x26 {
        wire: u64,
        offset: u64,
        position: u64,
        reserved: [u64; 3],
    }

    /// Why the endpoint is readable, or in error.
    State = both 0x27 {
        live: u64,
        closed: u64,
        reset: u64,
        passed: u64,
        reserved: [u64; 2],
    }
}
