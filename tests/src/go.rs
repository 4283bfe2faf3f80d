//! Programs of Go: those of `tests/programs/go`, built by toolchains of several versions, which
//! `scripts/go_toolchains.py` fetches.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where toolchains, their caches and what they have built are kept.
fn cache() -> PathBuf {
    manifest().join("../target/go")
}

fn manifest() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// One version's compiler and library.
pub struct Toolchain {
    /// Its version, or `debian`.
    pub version: String,
    root: PathBuf,
}

/// How a program is linked. Without libc ulsock is not loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Linked {
    /// As `go build` does it where a C compiler is installed.
    ByDefault,
    /// `CGO_ENABLED=0`: a static program.
    Statically,
    /// Without the note by which Go's linker names its programs, as for builds that can be reproduced.
    WithoutNote,
    /// The same by the C compiler, which makes other tables of symbols.
    WithoutNoteByC,
    /// At an address that the loader chooses.
    Pie,
    /// With the race detector, whose C code sees all that goroutines share.
    Race,
}

impl Linked {
    /// A name for what is built so.
    fn kind(self) -> &'static str {
        match self {
            Linked::ByDefault => "",
            Linked::Statically => "-static",
            Linked::WithoutNote => "-no-note",
            Linked::WithoutNoteByC => "-no-note-c",
            Linked::Pie => "-pie",
            Linked::Race => "-race",
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Linked::ByDefault | Linked::Statically => &[],
            Linked::WithoutNote => &["-ldflags=-buildid="],
            Linked::WithoutNoteByC => &["-ldflags=-buildid= -linkmode=external"],
            Linked::Pie => &["-buildmode=pie"],
            Linked::Race => &["-race"],
        }
    }
}

impl Toolchain {
    /// Those that `TESTS_GO` chooses, the newest first; Debian's is the last.
    pub fn chosen() -> Vec<Self> {
        let mut all = fetch(&[]);
        all.sort_by_key(|toolchain| std::cmp::Reverse(toolchain.minor()));
        all
    }

    /// The newest of those.
    pub fn newest() -> Self {
        let mut chosen = Self::chosen();
        assert!(!chosen.is_empty(), "TESTS_GO chooses no toolchain");
        chosen.swap_remove(0)
    }

    /// Has it the race detector's C code? PyPI's wheels leave it out.
    pub fn has_race(&self) -> bool {
        let folder = self.root.join("src/runtime/race");
        let places = ["race_linux_amd64.syso", "internal/amd64v1/race_linux.syso"];
        places.iter().any(|place| folder.join(place).exists())
    }

    /// The minor release; Debian 12's is 1.19.
    fn minor(&self) -> u32 {
        let number = self.version.split('.').nth(1);
        number.and_then(|text| text.parse().ok()).unwrap_or(19)
    }

    /// Builds a program of `tests/programs/go`, unless nothing has changed since.
    pub fn program(&self, name: &str, linked: Linked) -> PathBuf {
        let kind = linked.kind();
        let folder = cache().join("programs").join(format!("{name}{kind}"));
        fs::create_dir_all(&folder).expect("a folder for programs");
        // Its name tells in `ulsock top` which it is.
        let made = folder.join(format!("{name}-{}", self.version));
        let source = manifest().join("programs/go").join(name);
        let mut go = self.go(linked);
        let go = go.arg("build").args(linked.options()).arg("-o").arg(&made);
        let go = go.args(sources(&source));
        succeeded(&format!("go build {name}, {}", self.version), go.output());
        made
    }

    /// The command `go`. There is no go.mod: what a program may do, and how it behaves, is then decided by the
    /// toolchain's own version, as in a new module.
    fn go(&self, linked: Linked) -> Command {
        let cache = cache();
        let cgo = match linked {
            Linked::Statically => "0",
            _ => "1",
        };
        let mut go = Command::new(self.root.join("bin/go"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GO") || name == "LD_PRELOAD" {
                go.env_remove(name);
            }
        }
        go.current_dir(&cache)
            .env("GOROOT", &self.root)
            .env("GOTOOLCHAIN", "local")
            .env("GOFLAGS", "-mod=mod -buildvcs=false")
            .env("GOPROXY", "off")
            .env("GOTELEMETRY", "off")
            .env("GOENV", "off")
            .env("GOPATH", cache.join("path"))
            .env("GOCACHE", cache.join("built").join(&self.version))
            .env("CGO_ENABLED", cgo);
        go
    }
}

/// A program of `tests/programs/go` by the newest toolchain.
pub fn newest(name: &str) -> PathBuf {
    Toolchain::newest().program(name, Linked::ByDefault)
}

/// The script's lines: a version and its folder.
fn fetch(versions: &[&str]) -> Vec<Toolchain> {
    let mut script = Command::new("/usr/bin/python3");
    let script = script.arg(manifest().join("scripts/go_toolchains.py"));
    let text = succeeded("go_toolchains.py", script.args(versions).output());
    let toolchain = |line: &str| {
        let (version, root) = line.split_once(' ')?;
        let (version, root) = (version.to_owned(), PathBuf::from(root));
        Some(Toolchain { version, root })
    };
    text.lines().filter_map(toolchain).collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let files = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|found| found == "go"))
        .collect();
    files.sort();
    files
}

fn succeeded(what: &str, output: std::io::Result<Output>) -> String {
    let output = output.unwrap_or_else(|error| panic!("{what}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
