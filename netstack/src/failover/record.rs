//! RESUME: the first thing in each direction of the kernel's stream after a promotion.

/// Bytes of the record.
pub const LENGTH: usize = 40;

/// `[F14]` Five numbers of eight bytes, in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// What no program can guess.
    pub key: u64,
    pub epoch: u64,
    /// How far its writer has the opposite direction.
    pub received: u64,
    /// The offset of the byte that follows.
    pub from: u64,
    /// How far the writer's program had written.
    pub written: u64,
}

impl Resume {
    pub fn to_bytes(self) -> [u8; LENGTH] {
        let fields = [self.key, self.epoch, self.received, self.from, self.written];
        let mut bytes = [0; LENGTH];
        for (place, field) in bytes.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_be_bytes());
        }
        bytes
    }

    pub fn from_bytes(bytes: &[u8; LENGTH]) -> Resume {
        let (words, _) = bytes.as_chunks::<8>();
        let [key, epoch, received, from, written] =
            core::array::from_fn(|index| u64::from_be_bytes(words[index]));
        Resume {
            key,
            epoch,
            received,
            from,
            written,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let record = Resume {
            key: 0x0102_0304_0506_0708,
            epoch: 2,
            received: u64::MAX,
            from: 0,
            written: 77,
        };
        let bytes = record.to_bytes();
        assert_eq!(bytes[..9], [1, 2, 3, 4, 5, 6, 7, 8, 0]);
        assert_eq!(Resume::from_bytes(&bytes), record);
    }
}
