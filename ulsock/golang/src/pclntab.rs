//! The runtime's own table of functions, which stripped programs have, too (Go's src/runtime/symtab.go and
//! src/internal/abi/symtab.go; its form since Go 1.18).

use crate::elf::{is_string, u32_at, u64_at};

/// Go 1.18 and 1.19; 1.20 and later.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// Bytes of the shortest instruction, and of a pointer.
const MACHINE: [u8; 2] = [1, 8];
/// Words behind the magic number and the machine.
const NUMBER: usize = 8;
const TEXT: usize = 24;
const NAMES: usize = 32;
const FUNCTIONS: usize = 64;
/// More than any program has.
const MOST: u64 = 8 << 20;

pub struct Pclntab<'a> {
    names: &'a [u8],
    /// The list of functions, and behind it what is known of each.
    functions: &'a [u8],
    number: usize,
    /// Where the instructions begin; zero in some versions.
    pub text: u64,
}

/// A function, by its distance from where the instructions begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function<'a> {
    pub offset: u32,
    /// Its name, and what follows.
    name: &'a [u8],
}

impl Function<'_> {
    pub fn is(&self, name: &str) -> bool {
        is_string(self.name, name.as_bytes())
    }
}

impl<'a> Pclntab<'a> {
    pub fn of(bytes: &'a [u8]) -> Option<Pclntab<'a>> {
        let is_known = MAGICS.contains(&u32_at(bytes, 0)?) && bytes.get(6..8)? == MACHINE;
        let number = u64_at(bytes, NUMBER)?;
        (is_known && number <= MOST).then_some(())?;
        let part = |at| bytes.get(usize::try_from(u64_at(bytes, at)?).ok()?..);
        Some(Pclntab {
            names: part(NAMES)?,
            functions: part(FUNCTIONS)?,
            number: number as usize,
            text: u64_at(bytes, TEXT)?,
        })
    }

    /// As far as the table can be read.
    pub fn functions(&self) -> impl Iterator<Item = Function<'a>> + '_ {
        (0..self.number).map_while(|index| self.function(index))
    }

    fn function(&self, index: usize) -> Option<Function<'a>> {
        let offset = u32_at(self.functions, 8 * index)?;
        let details = u32_at(self.functions, 8 * index + 4)? as usize;
        let name = u32_at(self.functions, details.checked_add(4)?)? as usize;
        Some(Function {
            offset,
            name: self.names.get(name..)?,
        })
    }
}
