//! The module's header and its mirror in Rust say the same: a C compiler prints what it makes of the
//! one, and we print the other.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use netstack::phy::ivshmem::uapi::{self, Ioctl};

/// Writes the C program that prints a structure, and what it should print.
macro_rules! structure {
    ($program:ident, $expected:ident, $rust:ident, $c:literal, $request:literal, $($word:ident)*) => {
        line(&mut $program, concat!("sizeof(struct ", $c, ")"));
        writeln!($expected, "{}", size_of::<uapi::$rust>()).unwrap();
        line(&mut $program, $request);
        writeln!($expected, "{}", <uapi::$rust as Ioctl>::REQUEST).unwrap();
        $(
            line(&mut $program, concat!("offsetof(struct ", $c, ", ", stringify!($word), ")"));
            line(&mut $program, concat!("sizeof(((struct ", $c, " *)0)->", stringify!($word), ")"));
            let offset = std::mem::offset_of!(uapi::$rust, $word);
            let size = size_of_val(&uapi::$rust::default().$word);
            writeln!($expected, "{offset}\n{size}").unwrap();
        )*
    };
}

/// One expression on a line of its own; `check` compares them by line.
fn line(program: &mut String, expression: &str) {
    writeln!(
        program,
        "printf(\"%llu\\n\", (unsigned long long)({expression}));"
    )
    .unwrap();
}

/// Compiles the statements and runs them.
fn output_of(name: &str, statements: &str) -> String {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kmod/ulnic.h");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let binary = folder.join(format!("{name}-{}", std::process::id()));
    let mut compiler = Command::new("gcc")
        .args(["-Wall", "-Werror", "-x", "c", "-", "-o"])
        .arg(&binary)
        .stdin(Stdio::piped())
        .spawn()
        .expect("gcc");
    let program = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include \"{}\"\nint main(void)\n{{\n{statements}return 0;\n}}\n",
        header.display()
    );
    let mut input = compiler.stdin.take().unwrap();
    input.write_all(program.as_bytes()).unwrap();
    drop(input);
    assert!(compiler.wait().unwrap().success());
    let output = Command::new(&binary).output().unwrap();
    std::fs::remove_file(&binary).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn check(name: &str, statements: &str, expected: &str) {
    let found = output_of(name, statements);
    assert_eq!(found.lines().count(), expected.lines().count());
    for ((statement, found), expected) in
        statements.lines().zip(found.lines()).zip(expected.lines())
    {
        assert_eq!(found, expected, "{statement}");
    }
}

#[test]
fn structures_are_the_same() {
    let (mut program, mut expected) = (String::new(), String::new());
    structure!(program, expected, Info, "ulnic_info", "ULNIC_INFO",
        size flags version features slot slots generation partition page reserved incarnation);
    structure!(program, expected, Bind, "ulnic_bind", "ULNIC_BIND",
        size flags length service endpoint key reserved);
    structure!(program, expected, Lookup, "ulnic_lookup", "ULNIC_LOOKUP",
        size flags slot service endpoint key incarnation reserved);
    structure!(program, expected, Connect, "ulnic_connect", "ULNIC_CONNECT",
        size flags slot endpoint key connection offset length incarnation reserved);
    structure!(program, expected, Disconnect, "ulnic_disconnect", "ULNIC_DISCONNECT",
        size flags connection reserved);
    structure!(program, expected, Ring, "ulnic_ring", "ULNIC_RING",
        size flags connection reserved);
    structure!(program, expected, Tripwire, "ulnic_tripwire", "ULNIC_TRIPWIRE",
        size flags wire offset position reserved);
    structure!(program, expected, State, "ulnic_state", "ULNIC_STATE",
        size flags live closed reset passed reserved);
    check("structures", &program, &expected);
}

#[test]
fn constants_are_the_same() {
    let constants = [
        ("ULNIC_VERSION", uapi::VERSION),
        ("ULNIC_SLOTS_MAX", uapi::SLOTS_MAX as u64),
        ("ULNIC_ENDPOINTS_MAX", uapi::ENDPOINTS_MAX as u64),
        ("ULNIC_CONNECTIONS_MAX", uapi::CONNECTIONS_MAX as u64),
        ("ULNIC_WIRES_MAX", uapi::WIRES_MAX as u64),
        ("ULNIC_APERTURE_MAX", uapi::APERTURE_MAX),
        ("ULNIC_APERTURE_OFFSET", uapi::APERTURE_OFFSET),
        ("ULNIC_CONNECTION_OFFSET(0)", uapi::connection_offset(0)),
        ("ULNIC_CONNECTION_OFFSET(63)", uapi::connection_offset(63)),
        ("ULNIC_SERVICE_NONE", uapi::SERVICE_NONE),
        ("ULNIC_SERVICE_NICD", uapi::SERVICE_NICD),
        ("ULNIC_SERVICE_OPEN", uapi::SERVICE_OPEN),
        ("ULNIC_FEATURE_DOORBELL", uapi::FEATURE_DOORBELL),
        ("ULNIC_TRIPWIRE_DISARM", uapi::TRIPWIRE_DISARM),
    ];
    let (mut program, mut expected) = (String::new(), String::new());
    for (name, value) in constants {
        line(&mut program, name);
        writeln!(expected, "{value}").unwrap();
    }
    check("constants", &program, &expected);
}
