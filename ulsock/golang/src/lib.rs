//! What a Go program is made of: its version, and the functions by which it calls the kernel, past libc.
//!
//! The preload library looks at the program it is loaded into, and `ulsock doctor` at a file. A file can hold anything:
//! every offset and length is checked, and a function is known only if its instructions are, byte for byte.

mod build_info;
mod elf;
mod functions;
mod image;
mod pclntab;
mod refusal;
mod search;
mod version;

#[cfg(test)]
mod tests;

use elf::Elf;

pub use elf::Source;
pub use functions::{Function, Patch};
pub use image::{Image, Segment};
pub use refusal::Refusal;
pub use search::Found;
pub use version::Version;

/// A Go program whose calls can be led to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub version: Version,
    pub functions: Vec<Found>,
}

/// Has the file what every Go program tells of its build? For those that do not bear the note of Go's linker, which
/// `-buildid=` leaves out.
pub fn has_build_info<S: Source + ?Sized>(file: &S) -> bool {
    Elf::without_symbols(file).is_some_and(|elf| build_info::section(&elf).is_some())
}

/// Looks at a program that is known to be Go's: at its file, and at what is loaded of it.
pub fn examine<S: Source + ?Sized>(file: &S, image: &Image<'_>) -> Result<Program, Refusal> {
    let elf = Elf::of(file).ok_or(Refusal::Part("list of sections"))?;
    let version = build_info::version(&elf, image).ok_or(Refusal::Part("build information"))?;
    let version = Version::known(&version).ok_or(Refusal::Version(version))?;
    if !elf.imports(b"pthread_create") {
        return Err(Refusal::OwnThreads);
    }
    let functions = search::functions(&elf, image)?;
    Ok(Program { version, functions })
}

/// The same of a file alone.
pub fn examine_file<S: Source + ?Sized>(file: &S) -> Result<Program, Refusal> {
    let parts = elf::parts(file).ok_or(Refusal::Part("list of segments"))?;
    let image = Image {
        segments: parts.iter().map(elf::Part::segment).collect(),
        moved: 0,
    };
    examine(file, &image)
}
