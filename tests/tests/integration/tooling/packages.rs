//! The packages, as `packaging/release` makes them of the release build: what is in them, and that a clean Debian on
//! which they were installed, used and removed is as it was before.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

/// Where everything of these tests is: not in /tmp, which may be small.
fn folder() -> PathBuf {
    top().join("target/packages-test")
}

fn top() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the project").to_owned()
}

/// What a command says; it must succeed.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("a program that is installed");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{said}{errors}",
        output.status
    );
    said
}

/// The packages, made once.
fn packages() -> &'static Path {
    static PACKAGES: OnceLock<PathBuf> = OnceLock::new();
    PACKAGES.get_or_init(|| {
        let output = folder().join("packages");
        let _ = fs::remove_dir_all(&output);
        let mut release = Command::new(top().join("packaging/release"));
        let built = top().join("target");
        run(release.arg("--built").arg(built).arg(&output));
        output
    })
}

/// The one whose name begins and ends so.
fn package(begin: &str, end: &str) -> PathBuf {
    let entries = fs::read_dir(packages()).expect("the packages");
    let paths = entries.map(|entry| entry.expect("a package").path());
    let fits = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy();
        name.starts_with(begin) && name.ends_with(end)
    };
    let mut found: Vec<PathBuf> = paths.filter(fits).collect();
    assert_eq!(found.len(), 1, "{begin}*{end}: {found:?}");
    found.remove(0)
}

/// What the distribution that runs here says of itself.
fn of_system(name: &str) -> String {
    let text = fs::read_to_string("/etc/os-release").expect("os-release");
    let mut values = text.lines().filter_map(|line| line.strip_prefix(name));
    let value = values.find_map(|rest| rest.strip_prefix('='));
    value.unwrap_or_default().trim_matches('"').to_owned()
}

/// The files with the sources of the distribution that runs here; all sources, if apt has no list of theirs.
fn sources() -> Vec<String> {
    let id = of_system("ID");
    let format = "$(ORIGIN)|$(SOURCESENTRY)";
    let mut apt = Command::new("apt-get");
    let listed = run(apt.args(["indextargets", "--format", format, "Created-By: Packages"]));
    let entries = listed.lines().filter_map(|line| line.split_once('|'));
    let files = |only_own: bool| -> BTreeSet<String> {
        let entries = entries.clone();
        let fit = entries.filter(|(origin, _)| !only_own || origin.eq_ignore_ascii_case(&id));
        let names = fit.filter_map(|(_, entry)| Some(entry.rsplit_once(':')?.0.to_owned()));
        names.collect()
    };
    let own = files(true);
    let found = if own.is_empty() { files(false) } else { own };
    assert!(!found.is_empty(), "apt has no sources: {listed}");
    found.into_iter().collect()
}

/// How apt reaches its sources here, by proxies, with certificates and passwords, as a file for apt.
fn ways_of_apt() -> PathBuf {
    let configured = run(Command::new("apt-config").arg("dump"));
    let is_way =
        |line: &&str| line.starts_with("Acquire::") && !line.starts_with("Acquire::IndexTargets");
    let mut ways: Vec<&str> = configured.lines().filter(is_way).collect();
    ways.push("Dir::Etc::netrc \"/etc/apt/auth.conf\";");
    ways.push("Dir::Etc::netrcparts \"/etc/apt/auth.conf.d\";");
    let file = folder().join("apt.conf");
    fs::write(&file, ways.join("\n") + "\n").expect("a file");
    file
}

/// The distribution that runs here with redis, systemd and nothing else of interest. It is made once, and unpacked for each
/// test.
fn clean_root(name: &str) -> PathBuf {
    let archive = folder().join("clean.tar");
    if !archive.exists() {
        let new = folder().join("new.tar");
        fs::create_dir_all(folder()).expect("a folder");
        let mut debian = Command::new("timeout");
        debian.args([
            "300",
            "mmdebstrap",
            "--variant=apt",
            "--include=redis-server,systemd",
        ]);
        debian.arg(format!("--aptopt={}", ways_of_apt().display()));
        let release = of_system("VERSION_CODENAME");
        run(debian.arg(release).arg(&new).args(sources()));
        fs::rename(&new, &archive).expect("the same folder");
    }
    let root = folder().join(name);
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).expect("a folder");
    run(Command::new("tar")
        .arg("-xf")
        .arg(&archive)
        .arg("-C")
        .arg(&root));
    root
}

/// Boots it, with a script as its only service, which powers it off.
fn boot(root: &Path, script: &Path) {
    const UNIT: &str = "[Unit]\nRequires=multi-user.target\nAfter=multi-user.target\n\
        [Service]\nType=oneshot\nExecStart=/packages/script\n";
    let unit = root.join("etc/systemd/system/packages-test.service");
    fs::write(unit, UNIT).expect("a unit");
    fs::copy(script, root.join("packages/script")).expect("a script");
    // systemd wants a terminal for its console.
    let words = "exec systemd-nspawn --quiet --register=no --keep-unit --private-network --machine=ulsock-packages";
    let boot = format!(
        "{words} -D {} /lib/systemd/systemd --unit=packages-test.service",
        root.display()
    );
    let mut console = Command::new("timeout");
    console.args([
        "--kill-after=5",
        "150",
        "script",
        "-qec",
        &boot,
        "/dev/null",
    ]);
    let output = console.output().expect("script");
    let log = fs::read_to_string(root.join("results/log")).unwrap_or_default();
    assert!(
        root.join("results/done").exists(),
        "{}\n{log}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn installed_used_and_removed_they_leave_nothing() {
    let root = clean_root("root");
    let within = root.join("packages");
    fs::create_dir(&within).expect("a folder");
    for entry in fs::read_dir(packages()).expect("the packages") {
        let path = entry.expect("a package").path();
        fs::copy(&path, within.join(path.file_name().expect("a name"))).expect("a copy");
    }
    boot(&root, &top().join("tests/scripts/packages.sh"));
    let result = |name: &str| fs::read_to_string(root.join("results").join(name)).expect(name);
    let rows: Value = serde_json::from_str(&result("top")).expect("JSON");
    let rows = rows.as_array().expect("a list");
    let of_redis = rows.iter().filter(|row| row["program"] == "redis-server");
    let carriers: Vec<&Value> = of_redis.map(|row| &row["carrier_tx"]).collect();
    assert!(
        !carriers.is_empty() && carriers.iter().all(|it| *it == "shm"),
        "{rows:?}"
    );
    assert_eq!(result("completion"), "nicd\n");
    for name in ["doctor", "doctor-of-tar"] {
        assert!(result(name).contains("All is well"), "{}", result(name));
    }
    let before = result("before");
    for name in ["after-deb", "after-tar"] {
        unchanged(name, &before, &result(name));
    }
    rpms_leave_nothing(&root);
    fs::remove_dir_all(root).expect("removed");
}

/// The lists of what is there, before and after.
fn unchanged(what: &str, before: &str, after: &str) {
    let [before, after]: [BTreeSet<&str>; 2] = [before, after].map(|text| text.lines().collect());
    let more: Vec<_> = after.difference(&before).collect();
    let less: Vec<_> = before.difference(&after).collect();
    assert!(!before.is_empty());
    assert!(
        more.is_empty() && less.is_empty(),
        "{what}: more {more:#?}, less {less:#?}"
    );
}

/// Debian's rpm has a database of its own, so what they depend on is missing in it.
fn rpms_leave_nothing(root: &Path) {
    let list = || {
        let all = run(Command::new("find")
            .arg(root)
            .args(["-printf", "%y %m %P %l\n"]));
        let others = [" root/.rpmdb", " var/lib/rpm", " var/cache/ldconfig"];
        let is_ours = |line: &&str| !others.iter().any(|path| line.contains(path));
        all.lines().filter(is_ours).collect::<Vec<_>>().join("\n")
    };
    let rpm = || {
        let mut rpm = Command::new("rpm");
        rpm.arg("--root")
            .arg(root)
            .args(["--force-debian", "--nodeps"]);
        rpm
    };
    // The base of every system with rpm has them.
    for folder in ["usr/lib64/pkgconfig", "usr/share/licenses"] {
        fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    let before = list();
    let files = ["ulsock-0", "libulsock-0", "libulsock-devel-"].map(|name| package(name, ".rpm"));
    run(rpm().arg("-i").args(&files));
    let installed = list();
    assert!(installed.contains("usr/bin/ulsock") && installed.contains("usr/lib64/libulsock.so.0"));
    // A key that the administrator has made.
    fs::create_dir(root.join("etc/ulsock")).expect("a folder");
    fs::write(root.join("etc/ulsock/nicd.key"), "").expect("a file");
    run(rpm().args(["-e", "ulsock", "libulsock", "libulsock-devel"]));
    unchanged("rpm", &before, &list());
}

/// Paths in a package, without folders and without what each distribution has in a way of its own.
fn content(list: &str) -> BTreeSet<String> {
    let own = [
        "/usr/share/doc/",
        "/usr/share/licenses/",
        "/usr/share/lintian/",
        "/etc/",
    ];
    let paths = list
        .lines()
        .filter(|path| !own.iter().any(|begin| path.starts_with(begin)));
    paths
        .map(|path| {
            path.replace("/usr/lib64/", "/usr/lib/x86_64-linux-gnu/")
                .replace("/zsh/site-functions/", "/zsh/vendor-completions/")
        })
        .collect()
}

fn in_deb(path: &Path) -> BTreeSet<String> {
    let listed = run(Command::new("dpkg-deb").arg("-c").arg(path));
    let files = listed.lines().filter(|line| !line.starts_with('d'));
    let paths = files.map(|line| {
        let path = line.split_whitespace().nth(5).expect("a path");
        path.trim_start_matches('.').to_owned()
    });
    content(&paths.collect::<Vec<_>>().join("\n"))
}

fn in_rpm(path: &Path) -> BTreeSet<String> {
    let format = "[%{FILEMODES:perms} %{FILENAMES}\n]";
    let listed = run(Command::new("rpm").args(["-qp", "--qf", format]).arg(path));
    let files = listed.lines().filter(|line| !line.starts_with('d'));
    let paths = files.map(|line| line.split_once(' ').expect("a path").1);
    content(&paths.collect::<Vec<_>>().join("\n"))
}

#[test]
fn rpms_have_what_the_debian_packages_have() {
    let pairs = [
        ("ulsock_", "ulsock-0"),
        ("libulsock0_", "libulsock-0"),
        ("libulsock-dev_", "libulsock-devel-"),
        ("ulnic-dkms_", "ulnic-dkms-"),
    ];
    let mut all = BTreeSet::new();
    for (deb, rpm) in pairs {
        let [in_deb, in_rpm] = [in_deb(&package(deb, ".deb")), in_rpm(&package(rpm, ".rpm"))];
        assert_eq!(in_deb, in_rpm, "{deb} and {rpm}");
        all.extend(in_deb);
    }
    for wanted in [
        "/usr/bin/ulsock",
        "/usr/lib/ulsock/libulsock_preload.so",
        "/usr/lib/ulsock/libulsock_trace.so",
        "/usr/lib/ulsock/pingpong",
        "/usr/lib/systemd/system/ulsock-nicd.service",
        "/usr/lib/tmpfiles.d/ulsock.conf",
        "/usr/lib/x86_64-linux-gnu/wireshark/plugins/ulsock.lua",
        "/usr/lib/x86_64-linux-gnu/wireshark/extcap/ulsock",
        "/usr/share/man/man1/ulsock-run.1.gz",
        "/usr/share/man/man7/ulsock.7.gz",
        "/usr/share/bash-completion/completions/ulsock",
        "/usr/share/fish/vendor_completions.d/ulsock.fish",
        "/usr/share/zsh/vendor-completions/_ulsock",
        "/usr/lib/x86_64-linux-gnu/libulsock.so.0",
        "/usr/lib/x86_64-linux-gnu/pkgconfig/ulsock.pc",
        "/usr/include/ulsock.h",
        "/usr/lib/udev/rules.d/70-ulnic.rules",
    ] {
        assert!(all.contains(wanted), "{wanted} is in no package");
    }
    let is_module =
        |path: &&String| path.starts_with("/usr/src/ulnic-") && path.ends_with("/dkms.conf");
    assert_eq!(all.iter().filter(is_module).count(), 1);
    for (name, wanted) in [
        ("ulsock-0", "libc.so.6(GLIBC_"),
        ("libulsock-devel-", "libulsock = "),
    ] {
        let needs = run(Command::new("rpm").arg("-qRp").arg(package(name, ".rpm")));
        assert!(needs.contains(wanted), "{name} needs {needs}");
    }
}

#[test]
fn the_release_has_checksums_and_a_list_of_components() {
    run(Command::new("sha256sum")
        .args(["--check", "SHA256SUMS"])
        .current_dir(packages()));
    let listed = fs::read_to_string(packages().join("SHA256SUMS")).expect("checksums");
    let files = fs::read_dir(packages()).expect("the packages").count();
    assert_eq!(listed.lines().count(), files - 1);
    let bom = fs::read_to_string(package("ulsock-", ".cdx.json")).expect("a list");
    let bom: Value = serde_json::from_str(&bom).expect("JSON");
    assert_eq!(bom["bomFormat"], "CycloneDX");
    let components = bom["components"].as_array().expect("a list");
    for name in ["ulsock", "ulsock_preload", "rustls", "snow", "libc"] {
        let has = components.iter().any(|component| component["name"] == name);
        assert!(has, "{name} is no component");
    }
}
