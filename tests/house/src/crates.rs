//! The crates of the product and their modules, found as the compiler finds them: from a root file by its `mod` lines.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use syn::{Item, ItemMod};

use crate::test_code::{Attributes, only_tests};

/// A module's path from the root of its crate; empty for the root itself.
pub type ModulePath = Vec<String>;

/// One library or program.
pub struct Crate {
    /// Its package's folder, from the root of the workspace.
    pub folder: PathBuf,
    /// The files of its modules, without those of tests.
    pub files: Vec<SourceFile>,
}

/// A file with the module that it is the body of.
pub struct SourceFile {
    pub path: PathBuf,
    pub module: ModulePath,
    pub parsed: Rc<Parsed>,
}

/// What is in a file.
pub struct Parsed {
    pub text: String,
    pub syntax: syn::File,
}

/// The source files of a tree: each is read and parsed once.
pub struct Tree {
    pub root: PathBuf,
    parsed: RefCell<HashMap<PathBuf, Rc<Parsed>>>,
}

impl Tree {
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            parsed: RefCell::default(),
        }
    }

    /// The Rust file at a path from the root.
    pub fn parse(&self, path: &Path) -> Rc<Parsed> {
        let mut parsed = self.parsed.borrow_mut();
        let entry = parsed.entry(path.to_owned()).or_insert_with(|| {
            let failed = |error: &dyn Display| -> ! { panic!("{}: {error}", path.display()) };
            let text =
                fs::read_to_string(self.root.join(path)).unwrap_or_else(|error| failed(&error));
            let syntax = syn::parse_file(&text).unwrap_or_else(|error| failed(&error));
            Rc::new(Parsed { text, syntax })
        });
        entry.clone()
    }
}

/// Folders without product crates.
const OTHERS: &[&str] = &["benches", "docs", "target", "tests"];

/// The crates of the product.
pub fn product(tree: &Tree) -> Vec<Crate> {
    let mut crates = Vec::new();
    for package in packages(&tree.root) {
        for file in root_files(&tree.root.join(&package)) {
            let mut files = Vec::new();
            let path = package.join(file);
            let folder = path.parent().expect("a folder").to_owned();
            load(tree, &path, &folder, Vec::new(), &mut files);
            let folder = package.clone();
            crates.push(Crate { folder, files });
        }
    }
    crates
}

/// The folders of the product's packages, from `root`: at its top, or in a folder there.
pub fn packages(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for top in folders(root) {
        if OTHERS.iter().any(|other| top.ends_with(other)) {
            continue;
        }
        found.extend(folders(&top));
        found.push(top);
    }
    found.retain(|folder| folder.join("Cargo.toml").exists() && folder.join("src").exists());
    found.sort();
    let relative = |folder: PathBuf| {
        folder
            .strip_prefix(root)
            .expect("below the root")
            .to_owned()
    };
    found.into_iter().map(relative).collect()
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(of).unwrap_or_else(|error| panic!("{}: {error}", of.display()));
    let hidden = |path: &Path| {
        let name = path.file_name();
        name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
    };
    entries
        .map(|entry| entry.expect("an entry of a folder").path())
        .filter(|path| path.is_dir() && !hidden(path))
        .collect()
}

fn root_files(package: &Path) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = ["src/lib.rs", "src/main.rs"].map(PathBuf::from).into();
    if let Ok(programs) = fs::read_dir(package.join("src/bin")) {
        for program in programs {
            let program =
                Path::new("src/bin").join(program.expect("an entry of a folder").file_name());
            roots.push(program.join("main.rs"));
            roots.push(program);
        }
    }
    roots.retain(|file| package.join(file).is_file());
    roots
}

/// Reads a file of the module `module` and those that it declares, which lie in `folder`.
fn load(tree: &Tree, path: &Path, folder: &Path, module: ModulePath, files: &mut Vec<SourceFile>) {
    let parsed = tree.parse(path);
    if only_tests(&parsed.syntax.attrs) {
        return;
    }
    for declared in declarations(&parsed.syntax.items, &module, folder) {
        let (path, folder) = declared.find(&tree.root, path);
        load(tree, &path, &folder, declared.module, files);
    }
    files.push(SourceFile {
        path: path.to_owned(),
        module,
        parsed,
    });
}

/// A line `mod name;`.
struct Declaration {
    module: ModulePath,
    /// Where the file `name.rs` lies.
    folder: PathBuf,
    /// From an attribute `path`.
    named: Option<String>,
}

impl Declaration {
    /// The module's file, and the folder of its own modules.
    fn find(&self, root: &Path, declared_in: &Path) -> (PathBuf, PathBuf) {
        let own = self.folder.join(self.module.last().expect("a name"));
        if let Some(named) = &self.named {
            let path = declared_in.parent().expect("a folder").join(named);
            return (path.clone(), path.parent().expect("a folder").to_owned());
        }
        let flat = own.with_extension("rs");
        let path = if root.join(&flat).exists() {
            flat
        } else {
            own.join("mod.rs")
        };
        (path, own)
    }
}

fn declarations(items: &[Item], module: &ModulePath, folder: &Path) -> Vec<Declaration> {
    let mut found = Vec::new();
    for item in items {
        let Item::Mod(declared) = item else { continue };
        if item.is_test() {
            continue;
        }
        let name = declared.ident.to_string();
        let inner: ModulePath = module.iter().cloned().chain([name.clone()]).collect();
        match &declared.content {
            Some((_, items)) => found.extend(declarations(items, &inner, &folder.join(name))),
            None => found.push(Declaration {
                module: inner,
                folder: folder.to_owned(),
                named: path_attribute(declared),
            }),
        }
    }
    found
}

fn path_attribute(declared: &ItemMod) -> Option<String> {
    declared
        .attrs
        .iter()
        .find_map(|attribute| match &attribute.meta {
            syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                syn::Expr::Lit(literal) => match &literal.lit {
                    syn::Lit::Str(text) => Some(text.value()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        })
}
