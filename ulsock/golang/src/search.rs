//! Finds the functions of a program: their names in the runtime's table, their instructions where it says.

use crate::elf::Elf;
use crate::functions::{ALL, Function, Known, NEEDED, Patch};
use crate::image::{Image, Segment};
use crate::pclntab::Pclntab;
use crate::refusal::Refusal;

/// Functions begin at multiples of it.
const STEP: usize = 16;
/// Of all names together a program has no more functions, and its instructions of `Syscall6` are at no more places: more
/// would have us compare for ever.
const MOST_NAMED: usize = 64;
const MOST_PLACES: usize = 16;
/// A plugin brings all these functions along once more, and its calls would pass by us.
const PLUGINS: &str = "plugin.open";

/// A function whose instructions are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub function: Function,
    pub address: u64,
    /// Where its system call is.
    pub call: u64,
    pub patch: Patch,
}

/// A name of the list, and where the table says that it is.
struct Named {
    name: &'static str,
    offset: u32,
}

pub fn functions(elf: &Elf, image: &Image<'_>) -> Result<Vec<Found>, Refusal> {
    const BROKEN: Refusal = Refusal::Part("table of functions");
    let section = elf.section(&[".gopclntab", ".data.rel.ro.gopclntab"]);
    let section = section.ok_or(BROKEN)?;
    let size = usize::try_from(section.size).map_err(|_| BROKEN)?;
    let bytes = image.bytes(section.address, size).ok_or(BROKEN)?;
    let table = Pclntab::of(bytes).ok_or(BROKEN)?;
    if table.functions().any(|function| function.is(PLUGINS)) {
        return Err(Refusal::Plugins);
    }
    let named = named(&table);
    if named.len() > MOST_NAMED {
        return Err(BROKEN);
    }
    let told = table.text.wrapping_sub(image.moved);
    let text = elf.section(&[".text"]).map(|section| section.address);
    let guesses = [Some(told), text];
    let mut begins = guesses.into_iter().flatten().chain(searched(image, &named));
    let is_there = |begin: &u64| at(image, &named, *begin, Function::Syscall6).is_some();
    let begin = begins
        .find(is_there)
        .ok_or(Refusal::Instructions("Syscall6"))?;
    all(image, &named, begin)
}

fn named(table: &Pclntab<'_>) -> Vec<Named> {
    let mut names: Vec<&'static str> = ALL.iter().flat_map(|known| known.names).copied().collect();
    names.sort_unstable();
    names.dedup();
    let mut named = Vec::new();
    for function in table.functions() {
        if named.len() > MOST_NAMED {
            break;
        }
        if let Some(name) = names.iter().find(|name| function.is(name)) {
            named.push(Named {
                name,
                offset: function.offset,
            });
        }
    }
    named
}

/// Where the instructions may begin, by those of `Syscall6`: newer versions do not say it.
fn searched<'a>(image: &'a Image<'_>, named: &'a [Named]) -> impl Iterator<Item = u64> + 'a {
    let is_there = |segment: &Segment<'_>, address: u64| {
        let mut known = ALL
            .iter()
            .filter(|known| known.function == Function::Syscall6);
        known.any(|known| is_code(known, segment.bytes(address, known.extent())))
    };
    // Compared in the segment that is walked: a look through all of them at every step would take as many times longer.
    let places = image.codes().flat_map(move |segment| {
        let skipped = (segment.address.wrapping_neg() % STEP as u64) as usize;
        (skipped..segment.bytes.len())
            .step_by(STEP)
            .filter_map(|at| segment.address.checked_add(at as u64))
            .filter(move |address| is_there(segment, *address))
    });
    let of_syscall6 = |named: &&Named| {
        let mut known = ALL
            .iter()
            .filter(|known| known.function == Function::Syscall6);
        known.any(|known| known.names.contains(&named.name))
    };
    places.take(MOST_PLACES).flat_map(move |address| {
        let named = named.iter().filter(of_syscall6);
        named.filter_map(move |named| address.checked_sub(named.offset.into()))
    })
}

fn is_at(image: &Image<'_>, known: &Known, address: u64) -> bool {
    is_code(known, image.code(address, known.extent()))
}

fn is_code(known: &Known, code: Option<&[u8]>) -> bool {
    code.is_some_and(|code| known.is(code))
}

/// The function, if it is where the table says: of the entries of its name at least one has its instructions (another may
/// be a wrapper, which leads there).
fn at(image: &Image<'_>, named: &[Named], begin: u64, function: Function) -> Option<Found> {
    let known = ALL.iter().filter(|known| known.function == function);
    let mut found = known.flat_map(|known| {
        let of_name = named
            .iter()
            .filter(|named| known.names.contains(&named.name));
        of_name.filter_map(move |named| {
            let address = begin.checked_add(named.offset.into())?;
            is_at(image, known, address).then(|| Found {
                function,
                address,
                call: address + known.call as u64,
                patch: known.patch(),
            })
        })
    });
    found.next()
}

/// All that the program has, each with instructions that we know.
fn all(image: &Image<'_>, named: &[Named], begin: u64) -> Result<Vec<Found>, Refusal> {
    let mut found: Vec<Found> = Vec::new();
    let mut served: Vec<&str> = Vec::new();
    for known in ALL {
        if found.iter().any(|found| found.function == known.function) {
            continue;
        }
        if let Some(one) = at(image, named, begin, known.function) {
            served.extend(known.names);
            found.push(one);
        }
    }
    if let Some(named) = named.iter().find(|named| !served.contains(&named.name)) {
        return Err(Refusal::Instructions(named.name));
    }
    let has = |function: &Function| found.iter().any(|found| found.function == *function);
    match NEEDED.iter().all(has) {
        true => Ok(found),
        false => Err(Refusal::Part("list of functions")),
    }
}
