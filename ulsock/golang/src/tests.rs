//! Programs that are made up here, whole, changed and broken. Real ones: `tests/tests/integration/programs/go`.

use std::time::Duration;

use crate::functions::{ALL, Function, Known};
use crate::{Program, Refusal, Source, Version, examine_file, has_build_info};

const TEXT: usize = 0x400;
/// What the C compiler has put before Go's instructions.
const FOREIGN: usize = 0x60;
const FUNCTION: usize = 128;

/// A program in parts, put together by `file`.
#[derive(Clone)]
struct Made {
    version: &'static str,
    import: &'static str,
    functions: Vec<(&'static str, Vec<u8>)>,
    tells_text: bool,
    section: &'static str,
}

/// The functions as one version has them.
fn made(version: &'static str) -> Made {
    let minor = Version::known(version).map_or(0, |version| version.minor);
    let vfork = match minor {
        ..20 => Function::Vfork1,
        20 => Function::Vfork2,
        _ => Function::Vfork3,
    };
    let epoll = [
        Function::EpollCreate,
        Function::EpollCtl,
        Function::EpollWait,
    ];
    let is_of = |known: &&Known| match known.function {
        Function::Vfork1 | Function::Vfork2 | Function::Vfork3 => known.function == vfork,
        function => minor <= 20 || !epoll.contains(&function),
    };
    let mut functions = vec![("main.main", vec![0xc3])];
    let mut served = Vec::new();
    for known in ALL.iter().filter(is_of) {
        if !served.contains(&known.function) {
            served.push(known.function);
            functions.push((known.names[known.names.len() - 1], known.bytes().to_vec()));
        }
    }
    Made {
        version,
        import: "pthread_create",
        functions,
        tells_text: minor < 26,
        section: ".gopclntab",
    }
}

impl Made {
    fn file(&self) -> Vec<u8> {
        let mut file = vec![0; TEXT + FOREIGN];
        file.resize(TEXT + FOREIGN, 0x90);
        let begin = file.len() as u64;
        for (_, code) in &self.functions {
            let end = file.len() + FUNCTION;
            file.extend(code);
            file.resize(end, 0xcc);
        }
        let mut sections = vec![(".text", 1, TEXT, file.len() - TEXT, 0)];
        let mut add = |file: &mut Vec<u8>, name, kind, bytes: Vec<u8>, link| {
            file.resize(file.len().next_multiple_of(16), 0);
            sections.push((name, kind, file.len(), bytes.len(), link));
            file.extend(bytes);
        };
        add(&mut file, self.section, 1, self.table(begin), 0);
        add(&mut file, ".go.buildinfo", 1, self.build_info(), 0);
        // The name is the end of another one, as linkers have it.
        let strings = format!("\0free\0_cgo_{}\0", self.import).into_bytes();
        let mut symbols = vec![0; 24];
        symbols.extend(11_u32.to_le_bytes());
        symbols.resize(48, 0);
        add(&mut file, ".dynsym", 11, symbols, 4);
        add(&mut file, ".dynstr", 3, strings, 0);
        let mut names = vec![0];
        let places: Vec<usize> = sections
            .iter()
            .map(|(name, ..)| {
                let at = names.len();
                names.extend(name.as_bytes());
                names.push(0);
                at
            })
            .collect();
        let names_at = file.len();
        file.extend(&names);
        sections.push(("", 3, names_at, names.len(), 0));
        let headers = file.len() as u64;
        for (index, (_, kind, at, len, link)) in sections.iter().enumerate() {
            let mut header = [0_u8; 64];
            let name = places.get(index).copied().unwrap_or(0) as u32;
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[4..8].copy_from_slice(&(*kind as u32).to_le_bytes());
            header[16..24].copy_from_slice(&(*at as u64).to_le_bytes());
            header[24..32].copy_from_slice(&(*at as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(*len as u64).to_le_bytes());
            header[40..44].copy_from_slice(&(*link as u32).to_le_bytes());
            file.extend(header);
        }
        self.head(&mut file, headers, sections.len() as u16);
        file
    }

    /// The file's header, and one segment: all of it.
    fn head(&self, file: &mut [u8], headers: u64, count: u16) {
        let size = file.len() as u64;
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"\x7fELF\x02\x01\x01");
        put(32, &64_u64.to_le_bytes());
        put(40, &headers.to_le_bytes());
        put(54, &56_u16.to_le_bytes());
        put(56, &1_u16.to_le_bytes());
        put(58, &64_u16.to_le_bytes());
        put(60, &count.to_le_bytes());
        put(62, &(count - 1).to_le_bytes());
        put(64, &1_u32.to_le_bytes());
        put(68, &5_u32.to_le_bytes());
        put(96, &size.to_le_bytes());
    }

    fn table(&self, begin: u64) -> Vec<u8> {
        let mut names = Vec::new();
        let list_len = 8 * self.functions.len() + 4;
        let (mut list, mut details) = (Vec::new(), Vec::new());
        for (index, (name, _)) in self.functions.iter().enumerate() {
            let offset = (index * FUNCTION) as u32;
            list.extend(offset.to_le_bytes());
            list.extend(((list_len + details.len()) as u32).to_le_bytes());
            details.extend(offset.to_le_bytes());
            details.extend((names.len() as u32).to_le_bytes());
            names.extend(name.as_bytes());
            names.push(0);
        }
        list.extend([0; 4]);
        let mut table = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
        let text = if self.tells_text { begin } else { 0 };
        let functions = 72 + names.len() as u64;
        let words = [self.functions.len() as u64, 0, text, 72, 0, 0, 0, functions];
        words
            .iter()
            .for_each(|word| table.extend(word.to_le_bytes()));
        table.extend(names);
        table.extend(list);
        table.extend(details);
        table
    }

    fn build_info(&self) -> Vec<u8> {
        let mut bytes = b"\xff Go buildinf:\x08\x02".to_vec();
        bytes.resize(32, 0);
        bytes.push(self.version.len() as u8);
        bytes.extend(self.version.as_bytes());
        bytes
    }

    fn examine(&self) -> Result<Program, Refusal> {
        examine_file(self.file().as_slice())
    }

    fn function(&mut self, name: &str) -> &mut Vec<u8> {
        let mut functions = self.functions.iter_mut();
        let found = functions.find(|(one, _)| one.ends_with(name));
        &mut found.expect("a function of this name").1
    }
}

#[test]
fn functions_are_found_where_they_are() {
    for version in [
        "go1.19.8",
        "go1.20.1",
        "go1.21.13",
        "go1.27.3 X:nosuch",
        "go1.26rc1",
    ] {
        let made = made(version);
        let program = made.examine().expect(version);
        let file = made.file();
        // All but main.main.
        assert_eq!(program.functions.len(), made.functions.len() - 1);
        for found in program.functions {
            let call = file.at(found.call, 2).expect("in the file");
            assert_eq!(call, [0x0f, 0x05], "{:?}", found.function);
        }
    }
}

#[test]
fn the_table_may_lie_elsewhere_and_name_a_function_twice() {
    let mut made = made("go1.22.1");
    made.section = ".data.rel.ro.gopclntab";
    made.functions
        .insert(1, ("runtime.exit", vec![0xe9, 1, 2, 3, 4]));
    assert!(made.examine().is_ok());
}

#[test]
fn what_the_linker_has_left_out_is_not_missed() {
    let mut made = made("go1.19.8");
    made.functions.retain(|(name, _)| !name.contains("Vfork"));
    assert!(made.examine().is_ok());
    made.functions.retain(|(name, _)| *name != "runtime.write1");
    assert_eq!(made.examine(), Err(Refusal::Part("list of functions")));
}

#[test]
fn other_instructions_are_refused() {
    for name in [
        "Syscall6",
        "runtime.exit",
        "runtime.write1",
        "syscall.rawVforkSyscall",
    ] {
        let mut made = made("go1.27.0");
        made.function(name)[3] ^= 0x40;
        let Err(Refusal::Instructions(said)) = made.examine() else {
            panic!("{name}");
        };
        assert!(name.ends_with(said) || said == name);
    }
    // Something stands where the address would be written.
    let mut made = made("go1.25.0");
    made.function("runtime.exit").extend([0xcc, 0xcc, 0x90]);
    assert_eq!(made.examine(), Err(Refusal::Instructions("runtime.exit")));
}

#[test]
fn other_versions_and_threads_are_refused() {
    for version in [
        "go1.18.1",
        "go1.28",
        "devel go1.27-abc",
        "go2.1",
        "",
        "go1.",
    ] {
        let made = Made {
            version,
            ..made("go1.27.0")
        };
        assert_eq!(made.examine(), Err(Refusal::Version(version.to_owned())));
    }
    let made = Made {
        import: "pthread_creat",
        ..made("go1.27.0")
    };
    assert_eq!(made.examine(), Err(Refusal::OwnThreads));
}

/// All of the file, that many times: each byte would be searched for each of them.
#[test]
fn segments_over_each_other_are_refused() {
    let mut file = made("go1.27.0").file();
    let (head, size) = (64, 56);
    let segment = file[head..head + size].to_vec();
    assert!(examine_file(file.as_slice()).is_ok());
    for count in [2, 16] {
        for index in 1..count {
            file[head + index * size..][..size].copy_from_slice(&segment);
        }
        file[56] = count as u8;
        let refused = Err(Refusal::Part("list of segments"));
        assert_eq!(examine_file(file.as_slice()), refused, "{count} segments");
    }
}

#[test]
fn what_is_said_of_the_build_is_found_without_a_note() {
    let mut file = made("go1.27.0").file();
    assert!(has_build_info(file.as_slice()));
    let name = b".go.buildinfo";
    let at = file.windows(name.len()).position(|part| part == name);
    file[at.expect("its name")] = b'_';
    assert!(!has_build_info(file.as_slice()));
    assert!(!has_build_info(&b"\x7fELF\x02\x01"[..]));
}

#[test]
fn whatever_the_file_holds() {
    let whole: Vec<Vec<u8>> = ["go1.19.1", "go1.27.1"]
        .map(|version| made(version).file())
        .into();
    let target = bolero::check!().with_test_time(Duration::from_secs(1));
    target.for_each(|input: &[u8]| {
        let _ = examine_file(input);
        let Some((which, changes)) = input.split_first() else {
            return;
        };
        let mut file = whole[usize::from(*which) % 2].clone();
        for [high, low, value] in changes.as_chunks::<3>().0 {
            let at = usize::from(u16::from_be_bytes([*high, *low])) % file.len();
            file[at] = *value;
        }
        let Ok(program) = examine_file(file.as_slice()) else {
            return;
        };
        for found in program.functions {
            let mut known = ALL.iter().filter(|known| known.function == found.function);
            assert!(known.any(|known| {
                let code = file.at(found.address, known.extent());
                code.is_some_and(|code| known.is(&code))
            }));
        }
    });
}
