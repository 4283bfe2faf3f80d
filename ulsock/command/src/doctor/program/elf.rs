//! Reads what a program file says of itself: its kind, its loader, the libraries that it needs, and the functions that
//! it takes from them (ELF-64, generic ABI; the System V ABI for x86-64 for the rest).
//!
//! A file can hold anything. Every offset and length is checked against it, and what is read is bounded.

use std::collections::{BTreeSet, HashMap};

use golang::{Program, Refusal};

pub use golang::Source;

const CLASS_32: u8 = 1;
const LITTLE_ENDIAN: u8 = 1;
const X86_64: u16 = 62;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const SHT_DYNSYM: u32 = 11;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;
const SYMBOL: usize = 24;

/// More than any program has of each.
const MOST_HEADERS: u16 = 512;
const MOST_DYNAMIC: u64 = 64 << 10;
const MOST_STRINGS: u64 = 32 << 20;
const MOST_SYMBOLS: u64 = 24 * (1 << 20);
const MOST_NOTES: u64 = 64 << 10;
const LONGEST_NAME: usize = 4096;
pub const MOST_NEEDED: usize = 512;
pub const MOST_FOLDERS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of another kind of processor, by its number.
    Foreign(u16),
    Bits32,
    Bits64(Elf),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elf {
    /// The loader; nothing for a static program.
    pub interpreter: Option<String>,
    pub needed: Vec<String>,
    /// Where it wants its libraries to be looked for.
    pub folders: Vec<String>,
    /// Which of the functions that were asked for it takes from libraries.
    pub imports: BTreeSet<&'static str>,
    /// If it is Go's: how its calls can be led to us, or why not.
    pub go: Option<Result<Program, Refusal>>,
}

/// `None`: not an ELF file, or a broken one. Of what it imports only the names that are `asked` for are kept: it may say
/// that it imports millions, and there may be hundreds of libraries.
pub fn read<S: Source + ?Sized>(file: &S, asked: &[&'static str]) -> Option<Kind> {
    let head = file.at(0, 20)?;
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let machine = u16_at(&head, 18)?;
    if head[5] != LITTLE_ENDIAN {
        return Some(Kind::Foreign(machine));
    }
    if head[4] == CLASS_32 {
        return Some(Kind::Bits32);
    }
    if machine != X86_64 {
        return Some(Kind::Foreign(machine));
    }
    Image::of(file)?.read(asked).map(Kind::Bits64)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// A segment.
struct Part {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

struct Image<'a, S: ?Sized> {
    file: &'a S,
    parts: Vec<Part>,
    /// Offset, size and number of the section headers.
    sections: (u64, u16, u16),
}

impl<'a, S: Source + ?Sized> Image<'a, S> {
    fn of(file: &'a S) -> Option<Self> {
        let head = file.at(0, 64)?;
        let (size, count) = (u16_at(&head, 54)?, u16_at(&head, 56)?);
        let begin = u64_at(&head, 32)?;
        let part = |n: u16| {
            let offset = begin.checked_add(u64::from(n) * u64::from(size))?;
            let bytes = file.at(offset, 56)?;
            Some(Part {
                kind: u32_at(&bytes, 0)?,
                offset: u64_at(&bytes, 8)?,
                address: u64_at(&bytes, 16)?,
                size: u64_at(&bytes, 32)?,
            })
        };
        let parts = (0..count.min(MOST_HEADERS)).map_while(part).collect();
        let sections = (u64_at(&head, 40)?, u16_at(&head, 58)?, u16_at(&head, 60)?);
        Some(Image {
            file,
            parts,
            sections,
        })
    }

    fn read(&self, asked: &[&'static str]) -> Option<Elf> {
        let mut elf = Elf {
            interpreter: self.interpreter(),
            go: self.is_go().then(|| golang::examine_file(self.file)),
            ..Elf::default()
        };
        let Some(dynamic) = self.dynamic() else {
            return Some(elf);
        };
        let of = |tag: u64| {
            let mut entries = dynamic.iter();
            entries.find(|(found, _)| *found == tag).map(|(_, v)| *v)
        };
        let strings = of(DT_STRTAB).and_then(|at| self.offset_of(at));
        let Some(strings) = strings else {
            return Some(elf);
        };
        let len = of(DT_STRSZ).unwrap_or(0).min(MOST_STRINGS);
        let text = self.file.at(strings, len as usize).unwrap_or_default();
        let named = |wanted: u64| {
            let entries = dynamic.iter().filter(move |(tag, _)| *tag == wanted);
            entries.filter_map(|(_, at)| string(&text, *at))
        };
        elf.needed = named(DT_NEEDED).take(MOST_NEEDED).collect();
        let folders = named(DT_RUNPATH).chain(named(DT_RPATH));
        elf.folders = folders
            .flat_map(|list| list.split(':').map(str::to_owned).collect::<Vec<_>>())
            .take(MOST_FOLDERS)
            .collect();
        let symbols = of(DT_SYMTAB).and_then(|at| self.offset_of(at));
        if let Some(symbols) = symbols {
            elf.imports = self.imports(symbols, strings, &text, asked);
        }
        Some(elf)
    }

    /// Where in the file lies what the program finds at this address.
    fn offset_of(&self, address: u64) -> Option<u64> {
        let mut loaded = self.parts.iter().filter(|part| part.kind == PT_LOAD);
        loaded.find_map(|part| {
            let within = address.checked_sub(part.address)?;
            (within < part.size).then(|| part.offset.checked_add(within))?
        })
    }

    fn part(&self, kind: u32) -> Option<&Part> {
        self.parts.iter().find(|part| part.kind == kind)
    }

    fn interpreter(&self) -> Option<String> {
        let part = self.part(PT_INTERP)?;
        let len = part.size.min(LONGEST_NAME as u64) as usize;
        string(&self.file.at(part.offset, len)?, 0)
    }

    fn dynamic(&self) -> Option<Vec<(u64, u64)>> {
        let part = self.part(PT_DYNAMIC)?;
        let len = part.size.min(MOST_DYNAMIC) as usize;
        let bytes = self.file.at(part.offset, len)?;
        let entries = bytes.chunks_exact(16);
        let entry = |bytes: &[u8]| Some((u64_at(bytes, 0)?, u64_at(bytes, 8)?));
        let entries = entries.map_while(entry);
        Some(entries.take_while(|(tag, _)| *tag != 0).collect())
    }

    /// Of symbols that are asked for and not defined here.
    fn imports(
        &self,
        symbols: u64,
        strings: u64,
        text: &[u8],
        asked: &[&'static str],
    ) -> BTreeSet<&'static str> {
        let len = self.symbols_len(symbols, strings).min(MOST_SYMBOLS) as usize;
        let Some(bytes) = self.file.at(symbols, len) else {
            return BTreeSet::new();
        };
        let longest = asked.iter().map(|name| name.len()).max().unwrap_or(0);
        let by_bytes: HashMap<_, _> = asked.iter().map(|name| (name.as_bytes(), *name)).collect();
        let import = |bytes: &[u8]| {
            let is_defined = u16_at(bytes, 6)? != 0;
            let name = (!is_defined).then(|| bytes_at(text, u32_at(bytes, 0)?.into(), longest))?;
            by_bytes.get(name?).copied()
        };
        bytes.chunks_exact(SYMBOL).filter_map(import).collect()
    }

    /// As the sections say; without them, as far as the names, which linkers put behind the symbols.
    fn symbols_len(&self, symbols: u64, strings: u64) -> u64 {
        let (begin, size, count) = self.sections;
        let len = |n: u16| {
            let offset = begin.checked_add(u64::from(n) * u64::from(size))?;
            let bytes = self.file.at(offset, 64)?;
            let is_it = u32_at(&bytes, 4)? == SHT_DYNSYM && u64_at(&bytes, 24)? == symbols;
            is_it.then(|| u64_at(&bytes, 32))?
        };
        let known = (0..count.min(MOST_HEADERS)).find_map(len);
        known.unwrap_or_else(|| strings.saturating_sub(symbols))
    }

    /// By the note or, where Go's linker was told to write none, by what it says of the build. What the preload library
    /// looks for instead (`exports_of_cgo` in preload/src/go/program.rs) is not in static programs.
    fn is_go(&self) -> bool {
        self.has_go_note() || golang::has_build_info(self.file)
    }

    /// The linker of Go names each of its programs in a note.
    fn has_go_note(&self) -> bool {
        let mut notes = self.parts.iter().filter(|part| part.kind == PT_NOTE);
        notes.any(|part| {
            let len = part.size.min(MOST_NOTES) as usize;
            let bytes = self.file.at(part.offset, len).unwrap_or_default();
            // A name of four bytes, a description of any length, type 4.
            let is_id = |it: &[u8]| it[..4] == *b"\x04\0\0\0" && it[8..] == *b"\x04\0\0\0Go\0\0";
            bytes.windows(16).any(is_id)
        })
    }
}

/// What begins there, up to a zero.
fn string(text: &[u8], at: u64) -> Option<String> {
    let bytes = bytes_at(text, at, LONGEST_NAME - 1)?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// The same, if it has no more than so many bytes.
fn bytes_at(text: &[u8], at: u64, most: usize) -> Option<&[u8]> {
    let rest = text.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().take(most + 1).position(|byte| *byte == 0)?;
    Some(&rest[..end])
}

#[cfg(test)]
mod tests;
