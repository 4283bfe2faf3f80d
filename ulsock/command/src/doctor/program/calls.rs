//! What a program calls, as far as its file and those of its libraries say: whether it can have TCP connections, and
//! what it may do with them that only kernel TCP can.

use super::elf::Elf;
use super::libraries::Library;
use crate::doctor::findings::Findings;

/// How a connection comes to be.
const OPENING: [&str; 3] = ["connect", "accept", "accept4"];
/// They return a connection to the kernel if they are used on one (`preload/symbols.txt`).
const RETURNING: [&str; 12] = [
    "fdopen",
    "dprintf",
    "splice",
    "vmsplice",
    "tee",
    "aio_read",
    "aio_read64",
    "aio_write",
    "aio_write64",
    "lio_listio",
    "lio_listio64",
    "pidfd_getfd",
];
const FILTERS: [&str; 3] = ["seccomp_load", "seccomp_init", "seccomp_rule_add"];
const LOADING: [&str; 2] = ["dlopen", "dlmopen"];
const LOADING_APART: [&str; 1] = ["dlmopen"];
const URING: [&str; 5] = [
    "io_uring_queue_init",
    "io_uring_queue_init_params",
    "io_uring_setup",
    "io_uring_get_sqe",
    "io_uring_submit",
];
const BY_NUMBER: [&str; 1] = ["syscall"];
/// They are libc's own parts: what they call they call for somebody.
const OF_LIBC: [&str; 6] = [
    "libc.so",
    "libresolv.so",
    "libnss_",
    "libnsl.so",
    "ld-linux",
    "libpthread.so",
];
const MOST_NAMES: usize = 6;

/// All functions that are looked for.
pub fn asked() -> Vec<&'static str> {
    let groups: [&[_]; 6] = [&OPENING, &RETURNING, &FILTERS, &LOADING, &URING, &BY_NUMBER];
    groups.concat()
}

/// The program and its libraries, by name.
struct Callers<'a>(Vec<(&'a str, &'a Elf)>);

impl Callers<'_> {
    /// Which of these functions they take, and who takes them.
    fn of(&self, functions: &[&str]) -> Option<String> {
        debug_assert!(functions.iter().all(|it| asked().contains(it)));
        let mut taken = Vec::new();
        let mut takers = Vec::new();
        for (name, elf) in &self.0 {
            let uses = |function: &&&str| elf.imports.contains(**function);
            let used: Vec<&str> = functions.iter().filter(uses).copied().collect();
            if !used.is_empty() {
                takers.push(*name);
            }
            taken.extend(used);
        }
        taken.sort_unstable();
        taken.dedup();
        let by = match takers.len() {
            0 => return None,
            n if n > MOST_NAMES => format!(
                "{} and {} more",
                takers[..MOST_NAMES].join(", "),
                n - MOST_NAMES
            ),
            _ => takers.join(", "),
        };
        Some(format!("{} (by {by})", taken.join(", ")))
    }
}

pub fn tell(findings: &mut Findings, program: &Elf, libraries: &[Library]) {
    let of_libraries = libraries.iter().filter_map(|library| {
        let name = library.name.rsplit('/').next().unwrap_or_default();
        let is_foreign = !OF_LIBC.iter().any(|part| name.starts_with(part));
        Some((name, library.elf.as_ref()?)).filter(|_| is_foreign)
    });
    let callers: Vec<_> = std::iter::once(("the program", program))
        .chain(of_libraries)
        .collect();
    let names: Vec<&str> = libraries
        .iter()
        .map(|library| library.name.as_str())
        .collect();
    findings.title("Calls, as far as its file and its libraries say");
    let missing = libraries.iter().filter(|library| library.elf.is_none());
    let missing: Vec<&str> = missing.map(|library| library.name.as_str()).collect();
    if !missing.is_empty() {
        findings.tell(
            "libraries",
            &format!("not found, and not looked at: {}", missing.join(", ")),
        );
    }
    let callers = Callers(callers);
    tell_connections(findings, &callers);
    tell_uring(findings, &callers, &names);
    tell_rest(findings, &callers);
}

fn tell_connections(findings: &mut Findings, callers: &Callers<'_>) {
    let by_go = callers.0.iter().any(|(_, elf)| elf.go.is_some());
    if by_go {
        return findings.well("TCP", "by the runtime of Go, past libc");
    }
    let plugins = callers.of(&LOADING);
    match (callers.of(&OPENING), &plugins) {
        (Some(calls), _) => findings.well("TCP", &calls),
        (None, Some(_)) => findings.tell(
            "TCP",
            "none seen: a library that it loads later (dlopen) may have connections, which are accelerated as well",
        ),
        (None, None) => findings.tell(
            "TCP",
            "it neither connects nor accepts: nothing to accelerate, except what it inherits or is passed",
        ),
    }
    if callers.of(&LOADING_APART).is_some() {
        findings.tell(
            "dlmopen",
            "a library that is loaded with it calls past ulsock: from then on all connections are on kernel TCP \
             (reason `plugin`)",
        );
    }
}

fn tell_uring(findings: &mut Findings, callers: &Callers<'_>, libraries: &[&str]) {
    let by_library = libraries.iter().any(|name| name.starts_with("liburing.so"));
    let used = callers.of(&URING);
    if by_library || used.is_some() {
        let by = used.unwrap_or_else(|| "liburing is linked".to_owned());
        findings.tell(
            "io_uring",
            &format!(
                "{by}: a connection that an io_uring works on is on kernel TCP (reason `io-uring`), except in the plainest \
                 form; the manual's chapter on io_uring says which. Others stay accelerated"
            ),
        );
    } else if callers.of(&BY_NUMBER).is_some() {
        findings.tell(
            "syscall",
            "it makes system calls by number: socket calls are followed; an io_uring that it makes so is \
             watched, and has its connections on kernel TCP (reason `io-uring`)",
        );
    }
}

fn tell_rest(findings: &mut Findings, callers: &Callers<'_>) {
    if let Some(calls) = callers.of(&FILTERS) {
        findings.tell(
            "seccomp",
            &format!(
                "{calls}: with its filter loaded ulsock is off, and all connections are on kernel TCP (reason `sandbox`); \
                 most programs have an option to go without"
            ),
        );
    }
    if let Some(calls) = callers.of(&RETURNING) {
        findings.tell(
            "kernel TCP only",
            &format!(
                "{calls}: a connection that they are used on returns to kernel TCP (reason `call`)"
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_what_is_told_once() {
        let elf = |imports: &[&'static str]| Elf {
            imports: imports.iter().copied().collect(),
            ..Elf::default()
        };
        let (program, library) = (elf(&["accept4", "read"]), elf(&["accept4", "connect"]));
        let callers = Callers(vec![("the program", &program), ("libx.so", &library)]);
        let told = callers.of(&OPENING).expect("some");
        assert_eq!(told, "accept4, connect (by the program, libx.so)");
        assert_eq!(callers.of(&LOADING), None);
    }
}
