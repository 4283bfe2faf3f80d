//! What each rule must find, in small trees that are planted for it.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::rules::{FILE_LINES, FUNCTION_LINES, LADDER};
use crate::violations;

/// A tree with these files, each a path and its text; beside each crate's `lib.rs` stands a manifest.
fn plant(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().expect("a folder");
    for (path, text) in files {
        let path = root.path().join(path);
        let folder = path.parent().expect("a folder");
        fs::create_dir_all(folder).expect("make a folder");
        fs::write(&path, text).expect("write a file");
        if path.ends_with("src/lib.rs") {
            fs::write(folder.join("../Cargo.toml"), "[package]").expect("write a manifest");
        }
    }
    root
}

/// What is found in such a tree, a line each.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let root = plant(files);
    violations(root.path())
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// What is found in the sockets crate with three rooms, of which `conn` has this code in its file `wait.rs`.
fn found_in_conn(code: &str) -> Vec<String> {
    found_with_root("pub mod conn;\npub mod ready;\npub mod state;\n", code)
}

fn found_with_root(root: &str, code: &str) -> Vec<String> {
    let file = |name: &str| {
        Path::new(LADDER)
            .join("src")
            .join(name)
            .to_string_lossy()
            .into_owned()
    };
    found(&[
        (&file("lib.rs"), root),
        (&file("state/mod.rs"), "pub mod table;\npub struct Fd;"),
        (&file("state/table.rs"), ""),
        (&file("conn/mod.rs"), "mod wait;\nmod side;"),
        (&file("conn/wait.rs"), code),
        (&file("conn/side.rs"), "pub struct Side;"),
        (
            &file("ready/mod.rs"),
            "pub mod epoll;\npub struct Set;\npub fn touch() {}",
        ),
        (&file("ready/epoll.rs"), ""),
    ])
}

/// Demands that `code` in conn/wait.rs is rejected for one import in this line.
#[track_caller]
fn rejected(code: &str, line: usize, import: &str) {
    let found = found_in_conn(code);
    let wanted = format!(
        "ulsock/sockets/src/conn/wait.rs:{line}: {import}: conn may not import from ready: \
         floors, the lowest first: runtime, state, conn, ready, promote, calls"
    );
    assert_eq!(found, [wanted], "{code}");
}

#[track_caller]
fn accepted(code: &str) {
    assert_eq!(found_in_conn(code), Vec::<String>::new(), "{code}");
}

#[test]
fn an_import_may_point_down_and_sideways() {
    accepted(
        "use crate::state::{self, table};\nuse crate::conn::side::Side;\nuse super::side;\nfn f() { crate::state::table::init(); }",
    );
}

#[test]
fn an_upward_import_by_use() {
    rejected("use crate::ready::Set;", 1, "crate::ready::Set");
    rejected("\nuse crate::ready as r;", 2, "crate::ready");
    rejected("\nuse crate::ready::*;", 2, "crate::ready::*");
    rejected("pub(crate) use crate::ready::Set;", 1, "crate::ready::Set");
    rejected(
        "fn f() {\n    use crate::ready::touch;\n    touch();\n}",
        2,
        "crate::ready::touch",
    );
}

#[test]
fn an_upward_import_inside_a_nested_use() {
    let code = "use crate::{\n    state::table,\n    ready::{epoll},\n};";
    rejected(code, 3, "crate::ready::epoll");
    rejected("use crate::{state, ready::{self}};", 1, "crate::ready");
}

#[test]
fn an_upward_import_by_an_inline_path() {
    rejected(
        "fn f() {\n    crate::ready::touch();\n}",
        2,
        "crate::ready::touch",
    );
    rejected(
        "struct S {\n    set: Vec<crate::ready::Set>,\n}",
        2,
        "crate::ready::Set",
    );
    rejected("impl Drop for crate::ready::Set {}", 1, "crate::ready::Set");
}

#[test]
fn an_upward_import_inside_a_macro() {
    rejected(
        "fn f() {\n    assert!(crate::ready::touch());\n}",
        2,
        "crate::ready::touch",
    );
    rejected(
        "lazy! {\n    use crate::{state, ready::Set};\n}",
        2,
        "crate::ready::Set",
    );
    rejected(
        "macro_rules! m {\n    () => { $crate::ready::touch() };\n}",
        2,
        "crate::ready::touch",
    );
}

#[test]
fn an_upward_import_by_super() {
    rejected(
        "use super::super::ready::Set;",
        1,
        "super::super::ready::Set",
    );
    rejected(
        "mod inner {\n    use super::super::super::ready;\n}",
        2,
        "super::super::super::ready",
    );
    rejected(
        "fn f() { super::super::ready::touch() }",
        1,
        "super::super::ready::touch",
    );
}

#[test]
fn an_upward_import_by_way_of_the_root() {
    for root in [
        "pub use ready::Set;",
        "pub use ready::*;",
        "pub use crate::ready::{Set as Other, Set};",
    ] {
        let root = format!("mod conn;\nmod ready;\nmod state;\n{root}");
        let found = found_with_root(&root, "use crate::Set;");
        assert_eq!(found.len(), 1, "{root}: {found:?}");
        assert!(
            found[0].contains("crate::Set: conn may not import from ready"),
            "{found:?}"
        );
    }
    let found = found_with_root(
        "mod conn;\nmod ready;\nmod state;\npub fn stop() {}",
        "fn f() { crate::stop() }",
    );
    assert!(
        found[0].contains("conn may not import from the crate root"),
        "{found:?}"
    );
    let found = found_in_conn("use crate::*;");
    assert!(
        found[0].contains("conn may not import from the crate root"),
        "{found:?}"
    );
}

#[test]
fn tests_may_import_from_above() {
    accepted("#[cfg(test)]\nmod tests {\n    use crate::ready::Set;\n}");
    accepted("#[cfg(all(test, not(loom)))]\nuse crate::ready::Set;");
    rejected(
        "#[cfg(not(test))]\nuse crate::ready::Set;",
        2,
        "crate::ready::Set",
    );
}

#[test]
fn a_module_without_a_floor() {
    let root = "mod conn;\nmod ready;\nmod state;\nmod shed {}";
    let found_inline = found_with_root(root, "use crate::shed::X;");
    assert!(
        found_inline[0].contains("conn may not import from shed"),
        "{found_inline:?}"
    );
    let files = [
        ("ulsock/sockets/src/lib.rs", "mod shed;"),
        ("ulsock/sockets/src/shed.rs", ""),
    ];
    let found = found(&files);
    let wanted = "ulsock/sockets/src/shed.rs:1: the module shed stands on no floor";
    assert!(found[0].starts_with(wanted), "{found:?}");
}

#[test]
fn a_cycle_between_modules() {
    let files = [
        ("netstack/src/lib.rs", "mod ring;\nmod wire;\nmod time;"),
        ("netstack/src/ring.rs", "mod deep;\nuse crate::time::Now;"),
        ("netstack/src/ring/deep.rs", "\nfn f() { crate::wire::g() }"),
        (
            "netstack/src/wire.rs",
            "use crate::time::Now;\nuse super::ring::Ring;",
        ),
        ("netstack/src/time.rs", ""),
    ];
    let wanted = [
        "netstack/src/ring/deep.rs:2: crate::wire::g: ring imports from wire in a cycle of modules: ring, wire",
        "netstack/src/wire.rs:2: super::ring::Ring: wire imports from ring in a cycle of modules: ring, wire",
    ];
    assert_eq!(found(&files), wanted);
}

#[test]
fn a_cycle_between_c_files() {
    let files = [
        (
            "kmod/a.c",
            "#include \"a.h\"\n/* calls b() */\nint a(void)\n{\n\treturn b();\n}\n",
        ),
        (
            "kmod/b.c",
            "static int own(void)\n{\n\treturn 0;\n}\nint b(void)\n{\n\treturn a();\n}\n",
        ),
        ("kmod/c.c", "static int own(void)\n{\n\treturn a();\n}\n"),
        ("kmod/a.h", "#include \"b.h\"\n#include <linux/fs.h>\n"),
        ("kmod/b.h", "#include \"a.h\"\n"),
    ];
    let wanted = [
        "kmod/a.c:5: b: a.c needs b.c in a cycle of files: a.c, b.c",
        "kmod/a.h:1: #include \"b.h\": a.h needs b.h in a cycle of files: a.h, b.h",
        "kmod/b.c:7: a: b.c needs a.c in a cycle of files: a.c, b.c",
        "kmod/b.h:1: #include \"a.h\": b.h needs a.h in a cycle of files: a.h, b.h",
    ];
    assert_eq!(found(&files), wanted);
}

#[test]
fn a_static_without_an_owner() {
    accepted(
        "static NAMES: [&str; 2] = [\"a\", \"b\"];\nprocess_wide! { static COUNT: AtomicU32; }",
    );
    accepted("#[cfg(test)]\nstatic COUNT: AtomicU32 = AtomicU32::new(0);");
    for code in [
        "static COUNT: AtomicU32 = AtomicU32::new(0);",
        "static mut COUNT: u32 = 0;",
        "fn f() { static COUNT: [AtomicU32; 2] = X; }",
    ] {
        let found = found_in_conn(code);
        assert_eq!(
            found,
            [
                "ulsock/sockets/src/conn/wait.rs:1: static COUNT: process-wide state belongs into process_wide!"
            ],
            "{code}"
        );
    }
}

#[test]
fn a_long_function() {
    let function = |lines: usize| {
        format!(
            "fn long() {{\n{}}}\n",
            "    // A comment.\n".repeat(lines - 2)
        )
    };
    let found_with = |text: &str| found(&[("netstack/src/lib.rs", text)]);
    assert_eq!(found_with(&function(FUNCTION_LINES)), Vec::<String>::new());
    let long = function(FUNCTION_LINES + 1);
    let wanted = "fn long has 61 lines, more than 60";
    assert_eq!(
        found_with(&long),
        [format!("netstack/src/lib.rs:1: {wanted}")]
    );
    assert_eq!(
        found_with(&format!("hook! {{\n{long}}}")),
        [format!("netstack/src/lib.rs:2: {wanted}")]
    );
    assert_eq!(
        found_with(&format!("impl X {{\n{long}}}")),
        [format!("netstack/src/lib.rs:2: {wanted}")]
    );
}

#[test]
fn a_long_file() {
    let found = found(&[("netstack/src/lib.rs", &"\n".repeat(FILE_LINES + 1))]);
    assert_eq!(
        found,
        ["netstack/src/lib.rs:501: the file has 501 lines, more than 500"]
    );
}
