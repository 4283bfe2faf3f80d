//! Which Go has made the program (Go's debug/buildinfo/buildinfo.go).

use crate::elf::{Elf, Section};
use crate::image::Image;

const MAGIC: &[u8] = b"\xff Go buildinf:";
/// The strings follow the header, each after its length (since Go 1.18).
const INLINE: u8 = 2;
const HEADER: usize = 32;
/// More than any version has.
const LONGEST: u8 = 127;

pub(crate) fn section(elf: &Elf) -> Option<Section> {
    elf.section(&[".go.buildinfo"])
}

/// In plain characters.
pub(crate) fn version(elf: &Elf, image: &Image<'_>) -> Option<String> {
    let section = section(elf)?;
    let header = image.bytes(section.address, HEADER + 1)?;
    let is_known = header.starts_with(MAGIC) && header[MAGIC.len() + 1] & INLINE != 0;
    let len = header[HEADER];
    (is_known && len <= LONGEST).then_some(())?;
    let at = section.address.checked_add(HEADER as u64 + 1)?;
    let text = std::str::from_utf8(image.bytes(at, len.into())?).ok()?;
    text.chars()
        .all(|c| c.is_ascii_graphic() || c == ' ')
        .then(|| text.to_owned())
}
