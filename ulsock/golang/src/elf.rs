//! The sections of a program file, and the names that it takes from libraries (ELF-64, generic ABI).

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::image::Segment;

/// More than any program has of each.
const MOST_SECTIONS: u16 = 1024;
const MOST_PARTS: u16 = 512;
/// Of what is loaded, in bytes.
const MOST_LOADED: u64 = 1 << 30;
const MOST_NAMES: u64 = 1 << 20;
const MOST_STRINGS: u64 = 32 << 20;
const HEADER: usize = 64;
const SECTION: usize = 64;
const PART: usize = 56;
const SYMBOL: usize = 24;
const PT_LOAD: u32 = 1;
const EXECUTABLE: u32 = 1;
const SHT_STRTAB: u32 = 3;
const SHT_DYNSYM: u32 = 11;

/// A file, or bytes in a test.
pub trait Source {
    fn size(&self) -> Option<u64>;

    /// Exactly so many bytes.
    fn at(&self, offset: u64, len: usize) -> Option<Vec<u8>>;
}

impl Source for File {
    fn size(&self) -> Option<u64> {
        Some(self.metadata().ok()?.len())
    }

    fn at(&self, offset: u64, len: usize) -> Option<Vec<u8>> {
        (offset.checked_add(len as u64)? <= self.size()?).then_some(())?;
        let mut bytes = vec![0; len];
        self.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }
}

impl Source for [u8] {
    fn size(&self) -> Option<u64> {
        Some(self.len() as u64)
    }

    fn at(&self, offset: u64, len: usize) -> Option<Vec<u8>> {
        let start = usize::try_from(offset).ok()?;
        Some(self.get(start..start.checked_add(len)?)?.to_vec())
    }
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Where a section lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    pub address: u64,
    pub size: u64,
}

struct Header {
    name: u32,
    kind: u32,
    place: Section,
    offset: u64,
    link: u32,
}

impl Header {
    fn read<S: Source + ?Sized>(&self, file: &S, most: u64) -> Option<Vec<u8>> {
        (self.place.size <= most).then_some(())?;
        file.at(self.offset, usize::try_from(self.place.size).ok()?)
    }
}

/// A part of the file that is loaded.
pub struct Part {
    pub address: u64,
    pub is_code: bool,
    pub bytes: Vec<u8>,
}

impl Part {
    pub fn segment(&self) -> Segment<'_> {
        Segment {
            address: self.address,
            bytes: &self.bytes,
            is_code: self.is_code,
        }
    }
}

/// All of them; nothing of a file that is broken.
pub fn parts<S: Source + ?Sized>(file: &S) -> Option<Vec<Part>> {
    let head = file.at(0, HEADER)?;
    let begin = u64_at(&head, 32)?;
    let (size, count) = (u16_at(&head, 54)?, u16_at(&head, 56)?);
    (usize::from(size) == PART && count <= MOST_PARTS).then_some(())?;
    let table = file.at(begin, usize::from(count) * PART)?;
    let loaded = table
        .chunks_exact(PART)
        .filter(|part| u32_at(part, 0) == Some(PT_LOAD));
    // Parts that lie over each other would have the same bytes read, and searched, many times. Linkers let two of them share
    // a page of the file, but no byte of it.
    let mut left = MOST_LOADED.min(file.size()?);
    let part = |header: &[u8]| {
        let size = u64_at(header, 32)?;
        left = left.checked_sub(size)?;
        Some(Part {
            address: u64_at(header, 16)?,
            is_code: u32_at(header, 4)? & EXECUTABLE != 0,
            bytes: file.at(u64_at(header, 8)?, usize::try_from(size).ok()?)?,
        })
    };
    loaded.map(part).collect()
}

/// What the file says of its sections.
pub struct Elf {
    headers: Vec<Header>,
    names: Vec<u8>,
    /// The dynamic symbols, and their names, of which one may be the end of another.
    symbols: Vec<u8>,
    strings: Vec<u8>,
}

impl Elf {
    /// `None`: not an ELF file for this machine, or a broken one.
    pub fn of<S: Source + ?Sized>(file: &S) -> Option<Elf> {
        let mut elf = Elf::without_symbols(file)?;
        let headers = &elf.headers;
        let dynamic = headers.iter().find(|header| header.kind == SHT_DYNSYM);
        let strings = dynamic.and_then(|header| headers.get(header.link as usize));
        let strings = strings.filter(|header| header.kind == SHT_STRTAB);
        let read =
            |header: Option<&Header>| header.and_then(|header| header.read(file, MOST_STRINGS));
        let (symbols, strings) = (read(dynamic), read(strings));
        elf.symbols = symbols.unwrap_or_default();
        elf.strings = strings.unwrap_or_default();
        Some(elf)
    }

    /// The sections alone.
    pub fn without_symbols<S: Source + ?Sized>(file: &S) -> Option<Elf> {
        let head = file.at(0, HEADER)?;
        // 64 bits, little endian.
        head.starts_with(b"\x7fELF\x02\x01").then_some(())?;
        let begin = u64_at(&head, 40)?;
        let (size, count) = (u16_at(&head, 58)?, u16_at(&head, 60)?);
        (usize::from(size) == SECTION && count <= MOST_SECTIONS).then_some(())?;
        let table = file.at(begin, usize::from(count) * SECTION)?;
        let header = |bytes: &[u8]| {
            Some(Header {
                name: u32_at(bytes, 0)?,
                kind: u32_at(bytes, 4)?,
                place: Section {
                    address: u64_at(bytes, 16)?,
                    size: u64_at(bytes, 32)?,
                },
                offset: u64_at(bytes, 24)?,
                link: u32_at(bytes, 40)?,
            })
        };
        let headers: Vec<Header> = table.chunks_exact(SECTION).filter_map(header).collect();
        let names = headers.get(usize::from(u16_at(&head, 62)?))?;
        let names = names.read(file, MOST_NAMES)?;
        Some(Elf {
            headers,
            names,
            symbols: Vec::new(),
            strings: Vec::new(),
        })
    }

    pub fn section(&self, wanted: &[&str]) -> Option<Section> {
        let is_wanted = |header: &&Header| {
            let name = self.names.get(header.name as usize..).unwrap_or_default();
            wanted
                .iter()
                .any(|wanted| is_string(name, wanted.as_bytes()))
        };
        self.headers
            .iter()
            .find(is_wanted)
            .map(|header| header.place)
    }

    /// Does it take this name from a library, or give it to one?
    pub fn imports(&self, name: &[u8]) -> bool {
        let is_it = |symbol: &[u8]| {
            let name_at = u32_at(symbol, 0).and_then(|at| self.strings.get(at as usize..));
            name_at.is_some_and(|found| is_string(found, name))
        };
        self.symbols.chunks_exact(SYMBOL).any(is_it)
    }
}

/// Does a C string of these bytes begin here?
pub(crate) fn is_string(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.get(wanted.len()) == Some(&0) && bytes.starts_with(wanted)
}
