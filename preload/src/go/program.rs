//! The program that we are loaded into, as the loader has put it in place.

use std::ffi::c_int;
use std::fs::File;
use std::slice::from_raw_parts;

use golang::{Image, Program, Refusal, Segment};
use libc::{Elf64_Phdr, PF_R, PF_X, PT_DYNAMIC, PT_LOAD, PT_NOTE, c_void, dl_phdr_info};

use super::exports::{self, Name};

/// What the linker of Go names its programs with: a name of four bytes, a description of any length, type 4.
const NAME_LEN: &[u8] = &[4, 0, 0, 0];
const NAME: &[u8] = b"\x04\0\0\0Go\0\0";
const NOTE: usize = 16;
/// By which C code finds the goroutine's stack: every Go program with cgo gives it to libraries, also where the linker was
/// told to write no note (`-buildid=`, as for builds that can be reproduced).
const OF_CGO: Name = Name::of(c"_cgo_topofstack");

/// As the loader describes the program; it stays loaded for ever.
struct Loaded {
    base: usize,
    headers: &'static [Elf64_Phdr],
}

impl Loaded {
    /// The program is the first that the loader names.
    fn program() -> Loaded {
        unsafe extern "C" fn first(info: *mut dl_phdr_info, _: usize, out: *mut c_void) -> c_int {
            // SAFETY: the loader's description, whose headers stay where they are, and the place below.
            unsafe {
                *out.cast::<Loaded>() = Loaded {
                    base: (*info).dlpi_addr as usize,
                    headers: from_raw_parts((*info).dlpi_phdr, (*info).dlpi_phnum.into()),
                };
            }
            1
        }
        let mut loaded = Loaded {
            base: 0,
            headers: &[],
        };
        // SAFETY: `first` is given the pointer to `loaded`, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut loaded).cast()) };
        loaded
    }

    /// The bytes of a part that can be read.
    fn bytes(&self, header: &Elf64_Phdr) -> &'static [u8] {
        let begin = self.base + header.p_vaddr as usize;
        // SAFETY: the loader has mapped so much of the file there. Before the program starts nobody writes it.
        unsafe { from_raw_parts(begin as *const u8, header.p_filesz as usize) }
    }

    fn of(&self, kind: u32) -> impl Iterator<Item = &'static Elf64_Phdr> {
        let is_of = move |header: &&Elf64_Phdr| header.p_type == kind && header.p_flags & PF_R != 0;
        self.headers.iter().filter(is_of)
    }

    fn image(&self) -> Image<'static> {
        let segment = |header: &'static Elf64_Phdr| Segment {
            address: header.p_vaddr,
            bytes: self.bytes(header),
            is_code: header.p_flags & PF_X != 0,
        };
        Image {
            segments: self.of(PT_LOAD).map(segment).collect(),
            moved: self.base as u64,
        }
    }
}

/// Notes are described on their own, and are there only as a part of what is loaded.
fn is_loaded(loaded: &Loaded, note: &Elf64_Phdr) -> bool {
    loaded.of(PT_LOAD).any(|part| {
        let offset = note.p_vaddr.checked_sub(part.p_vaddr);
        let end = offset.and_then(|offset| offset.checked_add(note.p_filesz));
        end.is_some_and(|end| end <= part.p_filesz)
    })
}

/// Costs other programs a look at a few bytes, and at their table of symbols.
pub fn is_go() -> bool {
    let loaded = Loaded::program();
    has_note(&loaded) || exports_of_cgo(&loaded)
}

fn has_note(loaded: &Loaded) -> bool {
    let mut notes = loaded.of(PT_NOTE).filter(|note| is_loaded(loaded, note));
    notes.any(|header| {
        let is_name = |note: &[u8]| note.starts_with(NAME_LEN) && note.ends_with(NAME);
        loaded.bytes(header).windows(NOTE).any(is_name)
    })
}

fn exports_of_cgo(loaded: &Loaded) -> bool {
    loaded.of(PT_DYNAMIC).next().is_some_and(|header| {
        let dynamic = loaded.base + header.p_vaddr as usize;
        // SAFETY: by this section the loader has linked the program with the library that we are.
        unsafe { exports::has(loaded.base, dynamic as *const [u64; 2], &OF_CGO) }
    })
}

/// What it is made of, and how far it was moved.
pub fn examine() -> Result<(Program, usize), Refusal> {
    let loaded = Loaded::program();
    let file = File::open("/proc/self/exe").map_err(|_| Refusal::Part("file"))?;
    let program = golang::examine(&file, &loaded.image())?;
    Ok((program, loaded.base))
}

/// Where in the file lies what the program has at this address.
pub fn place_in_file(address: usize) -> Option<i64> {
    let loaded = Loaded::program();
    loaded.of(PT_LOAD).find_map(|header| {
        let begin = loaded.base + header.p_vaddr as usize;
        let within = address.wrapping_sub(begin) as i64;
        // Its first page may begin before it, in the file as in memory.
        let page = -(begin as i64 % 4096);
        (page..header.p_filesz as i64)
            .contains(&within)
            .then_some(header.p_offset as i64 + within)
    })
}
