//! Where chaos happens: a work folder, and a small run directory of its own that can be filled.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::real::PAGE;
use crate::pattern;
use crate::program::{Program, built};

/// The size of the run directory.
const ROOM: &str = "size=16m,mode=1777";
const FILLER: &str = "filler";
/// Files of the run directory that outlive processes, because all of a user share them.
const SHARED: [&str; 4] = ["offers.", "spin.", "slips.", "host"];

/// The two folders; gone on drop.
pub struct Scene {
    folder: PathBuf,
    run_dir: PathBuf,
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no zero in a path")
}

impl Scene {
    /// Makes them; the run directory is a file system of its own, for which one must be root.
    pub fn set() -> Self {
        let name = format!("ulsock-chaos-{}", std::process::id());
        let scene = Self {
            folder: std::env::temp_dir().join(&name),
            run_dir: Path::new("/dev/shm").join(&name),
        };
        for path in [&scene.folder, &scene.run_dir] {
            fs::create_dir_all(path).expect("a folder");
        }
        let (kind, options) = (c"tmpfs", CString::new(ROOM).expect("no zero"));
        let target = c_path(&scene.run_dir);
        // SAFETY: all four are strings that end with zero and outlive the call.
        let done = unsafe {
            libc::mount(
                kind.as_ptr(),
                target.as_ptr(),
                kind.as_ptr(),
                0,
                options.as_ptr().cast(),
            )
        };
        assert_eq!(done, 0, "mount a run directory: chaos has to run as root");
        scene.write_nginx_files();
        scene
    }

    fn write_nginx_files(&self) {
        let mut page = vec![0; PAGE];
        pattern::fill(0, 0, &mut page);
        fs::write(self.path("page"), page).expect("the page");
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o755)).expect("chmod");
    }

    /// A file in the work folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The file of the reports.
    pub fn report(&self) -> PathBuf {
        self.path("report")
    }

    /// The run directory.
    pub fn run_dir(&self) -> &Path {
        &self.run_dir
    }

    /// A program that writes its log under `name`, on ulsock with these settings, or without it.
    pub fn program(
        &self,
        path: &Path,
        name: &str,
        settings: Option<&[(String, String)]>,
    ) -> Program {
        let program = Program::new(path, &self.path(name)).without_ulsock();
        let program = program.directory(&self.folder);
        let Some(settings) = settings else {
            return program;
        };
        let program = program.preload(&self.run_dir);
        let program = program.env("ULSOCK_REPORT", self.report());
        settings
            .iter()
            .fold(program, |program, (name, value)| program.env(name, value))
    }

    /// The `ulsock` command, about this run directory, its output in a file of the work folder.
    pub fn ulsock(&self, words: &[&str]) -> Command {
        let mut command = Command::new(built("ulsock"));
        let output = File::create(self.path("ulsock.log")).expect("a log");
        command
            .args(words)
            .env("ULSOCK_RUN_DIR", &self.run_dir)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("dup"))
            .stderr(output);
        command
    }

    /// No room is left in the run directory.
    pub fn fill(&self) {
        let mut file = File::create(self.run_dir.join(FILLER)).expect("the filler");
        let block = vec![0; 1 << 16];
        for size in [block.len(), 1] {
            while file.write_all(&block[..size]).is_ok() {}
        }
    }

    /// There is room again.
    pub fn empty(&self) {
        let _ = fs::remove_file(self.run_dir.join(FILLER));
    }

    /// Files of the run directory that belong to one process; none should be left.
    pub fn litter(&self) -> Vec<String> {
        let names = fs::read_dir(&self.run_dir)
            .expect("the run directory")
            .flatten();
        names
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| !SHARED.iter().any(|shared| name.starts_with(shared)))
            .collect()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let target = c_path(&self.run_dir);
        // SAFETY: a string that ends with zero and outlives the call.
        unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
        for path in [&self.folder, &self.run_dir] {
            fs::remove_dir_all(path).unwrap_or_else(|error| eprintln!("{path:?}: {error}"));
        }
    }
}
