//! A program as it lies in memory, or as it will: by the addresses that its file has.

/// A part of it that can be read.
#[derive(Clone, Copy)]
pub struct Segment<'a> {
    pub address: u64,
    pub bytes: &'a [u8],
    pub is_code: bool,
}

#[derive(Clone, Default)]
pub struct Image<'a> {
    pub segments: Vec<Segment<'a>>,
    /// How far it was moved as a whole: pointers inside it are larger by this than its addresses.
    pub moved: u64,
}

impl<'a> Image<'a> {
    pub fn bytes(&self, address: u64, len: usize) -> Option<&'a [u8]> {
        self.segments
            .iter()
            .find_map(|segment| segment.bytes(address, len))
    }

    /// The same of instructions.
    pub fn code(&self, address: u64, len: usize) -> Option<&'a [u8]> {
        self.codes().find_map(|segment| segment.bytes(address, len))
    }

    pub fn codes(&self) -> impl Iterator<Item = &Segment<'a>> {
        self.segments.iter().filter(|segment| segment.is_code)
    }
}

impl<'a> Segment<'a> {
    pub fn bytes(&self, address: u64, len: usize) -> Option<&'a [u8]> {
        let at = usize::try_from(address.checked_sub(self.address)?).ok()?;
        self.bytes.get(at..at.checked_add(len)?)
    }
}
