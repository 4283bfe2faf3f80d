//! The header is what the crate says. `BLESS=1` writes it again.

use std::fs;
use std::path::Path;

/// Comments as C has them, and without what only a tool of Rust asks for.
fn tidied(header: &str) -> String {
    let mut kept = String::new();
    let mut lines = header.lines();
    while let Some(line) = lines.next() {
        if line.trim() != "/*" {
            kept.push_str(line);
            kept.push('\n');
            continue;
        }
        let words = lines.by_ref().take_while(|line| line.trim() != "*/");
        let words: Vec<&str> = words.map(str::trim).collect();
        let said = words.split(|line| *line == "# Safety").next();
        let said = said.unwrap_or_default().join("\n");
        let indent = &line[..line.len() - 2];
        let said = said.trim_end().replace('\n', &format!("\n{indent} * "));
        let said = said.replace("* \n", "*\n");
        kept.push_str(&format!("{indent}/* {said} */\n"));
    }
    kept
}

#[test]
fn header_is_as_generated() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(crate_folder.join("cbindgen.toml"));
    let config = config.expect("cbindgen.toml");
    let bindings = cbindgen::generate_with_config(crate_folder, config).expect("a header");
    let mut written = Vec::new();
    bindings.write(&mut written);
    let made = tidied(&String::from_utf8(written).expect("a text"));
    let path = crate_folder.join("include/ulsock.h");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &made).expect("the header");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "include/ulsock.h is not what the crate says: BLESS=1 cargo test --profile unit -p ulsock_c --test header"
    );
}
