//! Programs in company: other libraries that talk while the program is loaded and ends, plugins,
//! memory allocators, sanitizers, and other preloaded libraries. All must talk as without ulsock,
//! and accelerated where ulsock is there in time.

use std::path::{Path, PathBuf};

use tests::compile::compile;
use tests::ends::{Ends, Side};
use tests::place::Place;
use tests::program::{Program, built};

/// Where Debian has its libraries.
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// The library and the program of `talk.c`; the program also with `flags`.
struct Talk {
    place: Place,
    library: PathBuf,
    program: PathBuf,
}

impl Talk {
    fn new(flags: &str) -> Talk {
        let place = Place::new(Ends::both()).eager();
        let folder = place.folder();
        let library = compile("cc", "talk.c", "-shared -fPIC", folder, "libtalk.so");
        let flags = format!("-DPROGRAM {flags}").replace("FOLDER", &folder.to_string_lossy());
        let program = compile("cc", "talk.c", &flags, folder, "talk");
        Talk {
            place,
            library,
            program,
        }
    }

    fn program(&self) -> Program {
        let path = self.program.to_str().expect("a path");
        self.place.server(path)
    }

    /// With these libraries preloaded, in this order; ULSOCK is ours.
    fn preloading(&self, list: &[&Path]) -> Program {
        let ulsock = built("libulsock_preload.so");
        let list: Vec<String> = list
            .iter()
            .map(|path| {
                if *path == Path::new("ULSOCK") {
                    &ulsock
                } else {
                    *path
                }
            })
            .map(|path| path.display().to_string())
            .collect();
        self.program().env("LD_PRELOAD", list.join(":"))
    }

    /// Runs it: who has talked, in order? At least `least` connections must have been accelerated.
    fn run(&self, program: Program, least: u64) -> Vec<String> {
        let output = program.limit(30).run();
        self.place.check_quiet();
        let (report, lines) = self.place.report(Side::Server);
        if self.place.ends() == Ends::Both {
            assert_eq!(lines, 1, "{report:?}");
            assert!(report.upgraded >= least, "{report:?}");
        }
        let talked = output
            .lines()
            .filter_map(|line| line.strip_suffix(" has talked"));
        talked.map(str::to_owned).collect()
    }
}

/// Loaded with the program: its constructor is earlier than ours, and so its destructor is later.
#[test]
fn a_library_of_the_program() {
    let talk = Talk::new("-Wl,--no-as-needed,-rpath,FOLDER FOLDER/libtalk.so");
    let talked = talk.run(talk.program(), 6);
    assert_eq!(
        talked,
        ["constructor", "main", "exit handler", "destructor"]
    );
}

#[test]
fn a_library_preloaded_before_and_after() {
    let ours = Path::new("ULSOCK");
    let talk = Talk::new("");
    let talked = talk.run(talk.preloading(&[&talk.library, ours]), 6);
    assert_eq!(
        talked,
        ["constructor", "main", "exit handler", "destructor"]
    );
    let talk = Talk::new("");
    let talked = talk.run(talk.preloading(&[ours, &talk.library]), 6);
    assert_eq!(
        talked,
        ["constructor", "main", "exit handler", "destructor"]
    );
}

#[test]
fn a_plugin() {
    let talk = Talk::new("");
    let talked = talk.run(talk.program().arg(&talk.library), 12);
    let order = [
        "main",
        "constructor",
        "plugin",
        "exit handler",
        "destructor",
    ];
    assert_eq!(talked, order);
}

/// Its calls are bound to our hooks once its constructor has run, also those on the program's accelerated connection.
#[test]
fn a_plugin_that_is_bound_to_itself() {
    let talk = Talk::new("");
    let program = talk.program().arg(&talk.library).arg("deepbind");
    let talked = talk.run(program, 8);
    let order = [
        "main",
        "constructor",
        "plugin",
        "exit handler",
        "destructor",
    ];
    assert_eq!(talked, order);
}

#[test]
fn other_preloaded_libraries() {
    let others = [
        "libjemalloc.so.2",
        "libtcmalloc_minimal.so.4",
        "faketime/libfaketime.so.1",
        "libeatmydata.so",
        "libkeepalive.so.0",
    ];
    for other in others {
        let other = Path::new(LIBRARIES).join(other);
        let other = match other.exists() {
            true => other,
            false => Path::new("/usr/lib").join(other.file_name().expect("a name")),
        };
        assert!(other.exists(), "{other:?} is not installed");
        for list in [[Path::new("ULSOCK"), &other], [&other, Path::new("ULSOCK")]] {
            let talk = Talk::new("");
            let talked = talk.run(talk.preloading(&list), 6);
            assert_eq!(talked, ["main", "exit handler"], "{list:?}");
        }
    }
}

#[test]
fn linked_allocators() {
    for library in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"] {
        let talk = Talk::new(&format!("-Wl,--no-as-needed {LIBRARIES}/{library}"));
        assert_eq!(talk.run(talk.program(), 6), ["main", "exit handler"]);
    }
}

/// Its runtime wants to be the first library: either it is, or it is told not to mind.
#[test]
fn an_address_sanitizer() {
    let runtime = Path::new(LIBRARIES).join("libasan.so.8");
    let talk = Talk::new("-fsanitize=address");
    let program = talk.preloading(&[&runtime, Path::new("ULSOCK")]);
    assert_eq!(talk.run(program, 6), ["main", "exit handler"]);
    let talk = Talk::new("-fsanitize=address");
    let program = talk.program();
    let program = program.env("ASAN_OPTIONS", "verify_asan_link_order=0");
    assert_eq!(talk.run(program, 6), ["main", "exit handler"]);
}
