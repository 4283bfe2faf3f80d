//! Libraries with symbols of their own before those of the program (RTLD_DEEPBIND): where the loader has bound a symbol
//! of theirs that we hook to libc, it is bound to our hook instead, as without that flag. All other symbols stay.
//!
//! Their constructors have run by then. Called by `dlopen`'s hook; it asks the loader, so never from a signal handler.

use std::collections::HashSet;
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{Elf64_Phdr, Elf64_Rela, Elf64_Sym, c_char, c_int, c_void, dl_phdr_info};
use libc::{PROT_READ, PROT_WRITE, RTLD_LAZY, RTLD_NEXT, RTLD_NOLOAD};

use super::open;

// include/uapi/linux/elf.h and the System V ABI for x86_64, 4.4.1.
const PT_DYNAMIC: u32 = 2;
const PT_GNU_RELRO: u32 = 0x6474_e552;
const DT_PLTRELSZ: usize = 2;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_RELA: usize = 7;
const DT_RELASZ: usize = 8;
const DT_JMPREL: usize = 23;
const KNOWN: usize = 24;
const R_X86_64_64: u64 = 1;
const R_X86_64_GLOB_DAT: u64 = 6;
const R_X86_64_JUMP_SLOT: u64 = 7;
const PAGE: usize = 4096;

/// A symbol of a plugin is bound to another of libc's functions than we know: its calls would pass by us.
pub struct Unknown;

/// The libraries that are loaded, by their addresses.
pub struct Loaded(HashSet<usize>);

impl Loaded {
    pub fn now() -> Loaded {
        let mut addresses = HashSet::new();
        each_library(|library| {
            addresses.insert(library.base);
        });
        Loaded(addresses)
    }

    /// Binds those that have come since to our hooks.
    pub fn rebind_new(&self) -> Result<(), Unknown> {
        let mut new = Vec::new();
        each_library(|library| {
            if !self.0.contains(&library.base) {
                new.push(library);
            }
        });
        if new.is_empty() {
            return Ok(());
        }
        let names = Names::open().ok_or(Unknown)?;
        new.iter().try_for_each(|library| library.rebind(&names))
    }
}

/// One loaded library.
struct Library {
    base: usize,
    /// Its name for the loader.
    name: *const c_char,
    /// Where its segments lie.
    begin: usize,
    end: usize,
    dynamic: usize,
    /// What is read-only once it is bound.
    relro: (usize, usize),
}

fn each_library(mut act: impl FnMut(Library)) {
    unsafe extern "C" fn one(info: *mut dl_phdr_info, _: usize, act: *mut c_void) -> c_int {
        // SAFETY: the loader's description lives while this runs, and `act` is the closure below.
        unsafe {
            let act = &mut *act.cast::<&mut dyn FnMut(Library)>();
            act(Library::of(&*info));
        }
        0
    }
    let mut act: &mut dyn FnMut(Library) = &mut act;
    // SAFETY: `one` is given the pointer to `act`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(one), (&raw mut act).cast()) };
}

impl Library {
    fn of(info: &dl_phdr_info) -> Library {
        let base = info.dlpi_addr as usize;
        // SAFETY: the loader says so.
        let headers = unsafe {
            std::slice::from_raw_parts::<Elf64_Phdr>(info.dlpi_phdr, info.dlpi_phnum.into())
        };
        let place = |header: &Elf64_Phdr| {
            let begin = base + header.p_vaddr as usize;
            (begin, begin + header.p_memsz as usize)
        };
        let of = |kind| headers.iter().filter(move |header| header.p_type == kind);
        let loaded = || of(libc::PT_LOAD).map(place);
        Library {
            base,
            name: info.dlpi_name,
            begin: loaded().map(|(begin, _)| begin).min().unwrap_or(base),
            end: loaded().map(|(_, end)| end).max().unwrap_or(base),
            dynamic: of(PT_DYNAMIC)
                .map(place)
                .next()
                .map_or(0, |(begin, _)| begin),
            relro: of(PT_GNU_RELRO).map(place).next().unwrap_or((0, 0)),
        }
    }

    fn has(&self, address: usize) -> bool {
        (self.begin..self.end).contains(&address)
    }

    /// The entries of the dynamic section, by their tags.
    fn entries(&self) -> [usize; KNOWN] {
        let mut entries = [0; KNOWN];
        let mut at = self.dynamic as *const [usize; 2];
        while !at.is_null() {
            // SAFETY: the section ends with an entry of tag 0.
            let [tag, value] = unsafe { at.read() };
            if tag == 0 {
                break;
            }
            if let Some(entry) = entries.get_mut(tag) {
                *entry = value;
            }
            at = at.wrapping_add(1);
        }
        // glibc has made addresses of them; a loader that has not leaves offsets.
        for tag in [DT_STRTAB, DT_SYMTAB, DT_RELA, DT_JMPREL] {
            if entries[tag] != 0 && entries[tag] < self.base {
                entries[tag] += self.base;
            }
        }
        entries
    }

    fn rebind(&self, names: &Names) -> Result<(), Unknown> {
        let entries = self.entries();
        for (list, size) in [(DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)] {
            let list = entries[list] as *const Elf64_Rela;
            for index in 0..entries[size] / size_of::<Elf64_Rela>() {
                // SAFETY: within the list, by its size.
                let relocation = unsafe { list.add(index).read() };
                // SAFETY: the tables are this library's own.
                unsafe { self.rebind_one(names, &entries, &relocation)? };
            }
        }
        Ok(())
    }

    /// # Safety
    /// The relocation and the tables are this library's.
    unsafe fn rebind_one(
        &self,
        names: &Names,
        entries: &[usize; KNOWN],
        relocation: &Elf64_Rela,
    ) -> Result<(), Unknown> {
        let kind = relocation.r_info & 0xffff_ffff;
        if ![R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT].contains(&kind) {
            return Ok(());
        }
        let symbols = entries[DT_SYMTAB] as *const Elf64_Sym;
        // SAFETY: the relocation is this library's, so that its symbol is in this library's table.
        let symbol = unsafe { symbols.add((relocation.r_info >> 32) as usize).read() };
        // What it defines itself is its own.
        if symbol.st_name == 0 || symbol.st_shndx != 0 {
            return Ok(());
        }
        let name = (entries[DT_STRTAB] + symbol.st_name as usize) as *const c_char;
        let Some(hook) = names.hook(name) else {
            return Ok(());
        };
        let slot = (self.base + relocation.r_offset as usize) as *const AtomicUsize;
        // SAFETY: a relocation names an aligned word of its library, which only the loader and we change.
        let bound = unsafe { &*slot }.load(Ordering::Relaxed);
        if bound != hook.libc && !(kind == R_X86_64_JUMP_SLOT && self.will_bind(bound, name, &hook))
        {
            // Another library's function, or our own; but another version of libc's would pass by us.
            return match names.libc.has(bound) {
                true => Err(Unknown),
                false => Ok(()),
            };
        }
        if !hook.is_next {
            return Err(Unknown);
        }
        self.write(slot, hook.ours);
        Ok(())
    }

    /// A slot that is bound by its first call leads into the library itself until then. Will it be libc's?
    fn will_bind(&self, bound: usize, name: *const c_char, hook: &Hook) -> bool {
        if !self.has(bound) {
            return false;
        }
        let handle = open_again(self.name);
        // SAFETY: a handle that is open, and a C string.
        let found = unsafe { libc::dlsym(handle, name) } as usize;
        close(handle);
        found == hook.libc
    }

    fn write(&self, slot: *const AtomicUsize, address: usize) {
        let at = slot as usize;
        // As _dl_protect_relro: whole pages only.
        let (begin, end) = (self.relro.0 & !(PAGE - 1), self.relro.1 & !(PAGE - 1));
        let locked = (begin..end).contains(&at);
        let page = (at & !(PAGE - 1)) as *mut c_void;
        // SAFETY: a page of the library's, which is read-only before and after; the word is the loader's to bind.
        unsafe {
            if locked && libc::mprotect(page, PAGE, PROT_READ | PROT_WRITE) != 0 {
                return;
            }
            (*slot).store(address, Ordering::Relaxed);
            if locked {
                libc::mprotect(page, PAGE, PROT_READ);
            }
        }
    }
}

/// What one name means.
struct Hook {
    ours: usize,
    libc: usize,
    /// Our hook calls libc's function, not that of another library that was preloaded after us.
    is_next: bool,
}

/// Ourselves and libc, as the loader knows them.
struct Names {
    us: *mut c_void,
    libc_handle: *mut c_void,
    /// Where our own functions lie, and libc's.
    ours: Library,
    libc: Library,
}

impl Names {
    fn open() -> Option<Names> {
        let (mut ours, mut libc) = (None, None);
        let here = Names::open as fn() -> Option<Names> as usize;
        let there = libc::getpid as unsafe extern "C" fn() -> libc::pid_t as usize;
        each_library(|library| {
            if library.has(here) {
                ours = Some(library);
            } else if library.has(there) {
                libc = Some(library);
            }
        });
        let (ours, libc) = (ours?, libc?);
        let names = Names {
            us: open_again(ours.name),
            libc_handle: open_again(libc.name),
            ours,
            libc,
        };
        (!names.us.is_null() && !names.libc_handle.is_null()).then_some(names)
    }

    /// `None` for a name that we do not hook.
    fn hook(&self, name: *const c_char) -> Option<Hook> {
        // SAFETY: handles that are open, and a C string.
        let [ours, libc, next] = unsafe {
            [self.us, self.libc_handle, RTLD_NEXT].map(|place| libc::dlsym(place, name) as usize)
        };
        // A name that nobody has leaves a message that the program must not find.
        // SAFETY: no arguments.
        unsafe { libc::dlerror() };
        self.ours.has(ours).then_some(Hook {
            ours,
            libc,
            is_next: next == libc,
        })
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        close(self.us);
        close(self.libc_handle);
    }
}

/// A handle of a library that is loaded.
fn open_again(name: *const c_char) -> *mut c_void {
    // SAFETY: the real function, and a name that the loader has told us.
    unsafe { open(name, RTLD_LAZY | RTLD_NOLOAD) }
}

fn close(handle: *mut c_void) {
    if !handle.is_null() {
        // SAFETY: a handle of our own.
        unsafe { libc::dlclose(handle) };
    }
}

/// Whether the loader searches for the library by this name alone, not by what it knows of the caller.
///
/// # Safety
/// Null or a C string.
pub unsafe fn is_path(name: *const c_char) -> bool {
    if name.is_null() {
        return false;
    }
    // SAFETY: not null, so it is a C string.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    name.contains(&b'/') && !name.contains(&b'$')
}
