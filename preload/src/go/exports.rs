//! Whether the program gives a symbol to libraries, by its own hash table of dynamic symbols (gABI, "Hash Table"; of GNU's
//! form: bfd's `elf_collect_gnu_hash_codes`, and `do_lookup_x` in glibc's elf/dl-lookup.c).
//!
//! The loader has looked at the same table for every symbol that it has resolved: it is in memory, and one look is a few
//! dozen instructions.

use std::ffi::CStr;

use libc::Elf64_Sym;

const DT_NULL: u64 = 0;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const UNDEFINED: u16 = 0;

/// A name with its hashes, which are computed when ulsock is built.
pub struct Name {
    text: &'static CStr,
    gnu: u32,
    sysv: u32,
}

impl Name {
    pub const fn of(text: &'static CStr) -> Name {
        let bytes = text.to_bytes();
        let (mut gnu, mut sysv, mut at) = (5381_u32, 0_u32, 0);
        while at < bytes.len() {
            let byte = bytes[at] as u32;
            gnu = gnu.wrapping_mul(33).wrapping_add(byte);
            sysv = (sysv << 4).wrapping_add(byte);
            let high = sysv & 0xf000_0000;
            sysv = (sysv ^ (high >> 24)) & !high;
            at += 1;
        }
        Name { text, gnu, sysv }
    }
}

/// The tables of a loaded program, where they are.
#[derive(Clone, Copy, Default)]
struct Tables {
    gnu: usize,
    sysv: usize,
    symbols: usize,
    strings: usize,
}

impl Tables {
    /// # Safety
    /// `dynamic` is the dynamic section of a program that the loader has put at `base`.
    unsafe fn of(base: usize, mut dynamic: *const [u64; 2]) -> Tables {
        let mut tables = Tables::default();
        loop {
            // SAFETY: the section ends by an entry `DT_NULL`.
            let [tag, value] = unsafe { *dynamic };
            // glibc has written addresses over what the file has, other loaders have not.
            let value = value as usize;
            let place = if value < base { base + value } else { value };
            match tag {
                DT_NULL => return tables,
                DT_GNU_HASH => tables.gnu = place,
                DT_HASH => tables.sysv = place,
                DT_SYMTAB => tables.symbols = place,
                DT_STRTAB => tables.strings = place,
                _ => {}
            }
            // SAFETY: as above, and this was not the last.
            dynamic = unsafe { dynamic.add(1) };
        }
    }

    /// # Safety
    /// The program has a symbol of this number.
    unsafe fn is(&self, number: u32, name: &Name) -> bool {
        // SAFETY: as the caller says; names of symbols are C strings of the table.
        unsafe {
            let symbol = &*(self.symbols as *const Elf64_Sym).add(number as usize);
            let found = (self.strings as *const i8).add(symbol.st_name as usize);
            symbol.st_shndx != UNDEFINED && CStr::from_ptr(found) == name.text
        }
    }

    /// # Safety
    /// The program has a table of GNU's form.
    unsafe fn has_by_gnu(&self, name: &Name) -> bool {
        let hash = name.gnu;
        let words = self.gnu as *const u32;
        // SAFETY: four words, the filter, the buckets, and of each bucket that is not empty a chain that ends by an odd number.
        unsafe {
            let [buckets, first, filter_len, shift] = *words.cast::<[u32; 4]>();
            // glibc passes over such a table, too.
            if buckets == 0 || filter_len == 0 {
                return false;
            }
            let filter = words.add(4).cast::<u64>();
            let word = *filter.add((hash / 64 % filter_len) as usize);
            if word >> (hash % 64) & word >> (hash >> shift & 63) & 1 == 0 {
                return false;
            }
            let list = filter.add(filter_len as usize).cast::<u32>();
            let mut number = *list.add((hash % buckets) as usize);
            if number < first {
                return false;
            }
            let chains = list.add(buckets as usize);
            loop {
                let found = *chains.add((number - first) as usize);
                if found | 1 == hash | 1 && self.is(number, name) {
                    return true;
                }
                if found & 1 != 0 {
                    return false;
                }
                number += 1;
            }
        }
    }

    /// # Safety
    /// The program has a table of the first form.
    unsafe fn has_by_sysv(&self, name: &Name) -> bool {
        let words = self.sysv as *const u32;
        // SAFETY: two words, the buckets, and the chains, each of which ends by a zero.
        unsafe {
            let buckets = *words;
            if buckets == 0 {
                return false;
            }
            let list = words.add(2);
            let chains = list.add(buckets as usize);
            let mut number = *list.add((name.sysv % buckets) as usize);
            while number != 0 {
                if self.is(number, name) {
                    return true;
                }
                number = *chains.add(number as usize);
            }
        }
        false
    }
}

/// # Safety
/// `dynamic` is the dynamic section of a program that the loader has put at `base`, and has resolved symbols by.
pub unsafe fn has(base: usize, dynamic: *const [u64; 2], name: &Name) -> bool {
    // SAFETY: as the caller says; the loader has followed the same tables.
    unsafe {
        let tables = Tables::of(base, dynamic);
        if tables.symbols == 0 || tables.strings == 0 {
            return false;
        }
        match (tables.gnu, tables.sysv) {
            (0, 0) => false,
            (0, _) => tables.has_by_sysv(name),
            _ => tables.has_by_gnu(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_linkers() {
        // `printf`, of the gABI's and of GNU's descriptions.
        let name = Name::of(c"printf");
        assert_eq!((name.sysv, name.gnu), (0x0779_05a6, 0x156b_2bb8));
        // Such that the upper four bits come into play.
        assert_eq!(Name::of(c"_cgo_topofstack").sysv >> 28, 0);
    }

    /// Symbols 1 to 3: `other`, `wanted`, and `asked`, which is not defined.
    struct Made {
        names: &'static [u8],
        symbols: Vec<[u32; 6]>,
    }

    fn made() -> Made {
        let symbol = |name: u32, section: u32| [name, section << 16, 0, 0, 0, 0];
        Made {
            names: b"\0other\0wanted\0asked\0",
            symbols: vec![symbol(0, 0), symbol(1, 1), symbol(7, 1), symbol(14, 0)],
        }
    }

    fn found(made: &Made, tag: u64, table: &[u32], name: &'static CStr) -> bool {
        let dynamic = [
            [DT_SYMTAB, made.symbols.as_ptr() as u64],
            [DT_STRTAB, made.names.as_ptr() as u64],
            [tag, table.as_ptr() as u64],
            [DT_NULL, 0],
        ];
        // SAFETY: tables as the linkers make them, all of which outlive the call.
        unsafe { has(0, dynamic.as_ptr(), &Name::of(name)) }
    }

    #[test]
    fn by_the_first_form() {
        let made = made();
        // One bucket, four chains.
        let table = [1, 4, 3, 0, 0, 1, 2];
        for (name, is_there) in [(c"other", true), (c"wanted", true), (c"asked", false)] {
            assert_eq!(found(&made, DT_HASH, &table, name), is_there, "{name:?}");
        }
        assert!(!found(&made, DT_HASH, &[1, 4, 0, 0, 0, 0, 0], c"wanted"));
    }

    #[test]
    fn by_that_of_gnu() {
        let made = made();
        let [other, wanted] = [c"other", c"wanted"].map(|name| Name::of(name).gnu);
        // One bucket, the first symbol, a filter of one word that lets all pass, and its shift.
        let full = [1, 1, 1, 6, !0, !0, 1, other & !1, wanted | 1];
        // The filter is of 8 bytes at a multiple of 8.
        let mut table = vec![0_u64; full.len().div_ceil(2)];
        let put = |table: &mut Vec<u64>, words: &[u32]| {
            for (word, pair) in table.iter_mut().zip(words.chunks(2)) {
                *word = u64::from(pair[0]) | u64::from(pair.get(1).copied().unwrap_or(0)) << 32;
            }
        };
        let words = |table: &[u64]| -> Vec<u32> {
            let halves = table
                .iter()
                .flat_map(|word| [*word as u32, (word >> 32) as u32]);
            halves.collect()
        };
        put(&mut table, &full);
        assert_eq!(words(&table)[..full.len()], full);
        let ask = |table: &[u64], name| {
            // SAFETY: the same bytes as words.
            let words = unsafe { std::slice::from_raw_parts(table.as_ptr().cast(), full.len()) };
            found(&made, DT_GNU_HASH, words, name)
        };
        assert!(ask(&table, c"other") && ask(&table, c"wanted"));
        assert!(!ask(&table, c"asked") && !ask(&table, c"wante"));
        let mut none = full;
        none[4..6].fill(0);
        put(&mut table, &none);
        assert!(!ask(&table, c"wanted"));
    }
}
