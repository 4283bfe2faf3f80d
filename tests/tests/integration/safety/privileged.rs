//! Programs that have more rights than those who start them (set-uid, set-gid, capabilities of the file), where the
//! library is loaded into all programs (/etc/ld.so.preload): whoever starts one chooses its environment.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tests::ends::{Ends, kernel_only};
use tests::place::Place;
use tests::program::built;

use crate::c_program;

/// Nobody in particular.
const STRANGER: &str = "1002";
const LIBRARY: &str = "libulsock_preload.so";

/// A mount namespace where /etc has the library in ld.so.preload, and nothing else. The program alone gets the variables.
const SCRIPT: &str = r#"
set -e
mount --make-rprivate /
mount --bind "$1/etc" /etc
private=$1/private
exec setpriv --reuid "$2" --regid "$2" --clear-groups env ULSOCK=1 ULSOCK_LOG=debug \
    ULSOCK_RUN_DIR="$private/run" ULSOCK_REPORT="$private/report" ULSOCK_LOG_FILE="$private/log" "$3"
"#;

/// Runs the program as a stranger does, who names files that only root can write.
fn run(folder: &Path, program: &str) -> Output {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT, "sh"]);
    command.arg(folder).args([STRANGER, program]);
    command.env_remove("LD_PRELOAD").env("ULSOCK", "0");
    command.output().expect("unshare")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    entries.map(|entry| name(entry.expect("a file"))).collect()
}

#[test]
fn nothing_of_the_environment_is_believed() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let folder = place.folder();
    let program = c_program("privileged", &place);
    let [etc, private] = ["etc", "private"].map(|name| folder.join(name));
    for path in [&etc, &private] {
        fs::create_dir(path).expect("a folder");
    }
    let library = folder.join(LIBRARY);
    fs::copy(built(LIBRARY), &library).expect("the library");
    fs::write(
        etc.join("ld.so.preload"),
        library.as_os_str().as_encoded_bytes(),
    )
    .expect("a list");
    let allow = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
    };
    for (mode, secure) in [(0o4755, 1), (0o2755, 1), (0o755, 0)] {
        allow(&private, if secure == 1 { 0o700 } else { 0o777 });
        allow(Path::new(&program), mode);
        let output = run(folder, &program);
        let [said, complaints] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(output.status.success(), "{mode:o}: {said}{complaints}");
        assert!(
            said.contains(&format!("AT_SECURE {secure}")),
            "{mode:o}: {said}"
        );
        let made = names(&private);
        if secure == 1 {
            assert!(
                made.is_empty() && complaints.is_empty(),
                "{mode:o}: {made:?} {complaints}"
            );
        } else {
            assert!(
                made.contains(&"report".to_owned()),
                "{mode:o}: {made:?} {complaints}"
            );
        }
    }
}
