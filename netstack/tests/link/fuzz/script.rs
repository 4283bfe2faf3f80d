//! Choices drawn from the bytes of an input; zeros once they are used up.

#[derive(Debug)]
pub struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    pub fn new(input: &'a [u8]) -> Script<'a> {
        Script(input)
    }

    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (first, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        first
    }

    fn number<const N: usize>(&mut self) -> [u8; N] {
        let mut number = [0; N];
        let bytes = self.bytes(N);
        number[..bytes.len()].copy_from_slice(bytes);
        number
    }

    pub fn byte(&mut self) -> u8 {
        u8::from_le_bytes(self.number())
    }

    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes(self.number())
    }

    pub fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.number())
    }

    pub fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.number())
    }

    /// Something near a number, or anything.
    pub fn near(&mut self, number: u32) -> u32 {
        match self.byte() % 4 {
            0 => number,
            1 => number.wrapping_add_signed(i32::from(self.byte() as i8)),
            2 => number.wrapping_add_signed(i32::from(self.short() as i16) * 7),
            _ => self.word(),
        }
    }
}
