//! Functions and files that are too long. Functions inside macros count too.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Block, Macro, Signature};

use crate::crates::{Tree, packages};
use crate::rules::{FILE_LINES, FUNCTION_LINES, MEASURED_TOO, Rule, Violation};

pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let others = MEASURED_TOO.iter().map(PathBuf::from);
    for package in packages(&tree.root).into_iter().chain(others) {
        for folder in ["src", "tests", "benches"] {
            for file in rust_files(&tree.root, &package.join(folder)) {
                let parsed = tree.parse(&file);
                found.extend(file_length(&file, &parsed.text));
                let mut measure = Measure {
                    file: &file,
                    found: &mut found,
                };
                measure.visit_file(&parsed.syntax);
            }
        }
    }
    found
}

/// The files with names in `.rs` below a folder, from `root`.
fn rust_files(root: &Path, folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root.join(folder)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = folder.join(entry.expect("an entry of a folder").file_name());
        if root.join(&path).is_dir() {
            found.extend(rust_files(root, &path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// For files of any language.
pub fn file_length(file: &Path, text: &str) -> Option<Violation> {
    let lines = text.lines().count();
    (lines > FILE_LINES).then(|| Violation {
        rule: Rule::File,
        file: file.to_owned(),
        line: FILE_LINES + 1,
        text: format!("the file has {lines} lines, more than {FILE_LINES}"),
    })
}

struct Measure<'a> {
    file: &'a Path,
    found: &'a mut Vec<Violation>,
}

impl Measure<'_> {
    fn function(&mut self, name: &str, start: Span, end: Span) {
        let start = start.start().line;
        let lines = end.end().line - start + 1;
        if lines > FUNCTION_LINES {
            self.found.push(Violation {
                rule: Rule::Function,
                file: self.file.to_owned(),
                line: start,
                text: format!("fn {name} has {lines} lines, more than {FUNCTION_LINES}"),
            });
        }
    }

    fn method(&mut self, signature: &Signature, block: &Block) {
        let name = signature.ident.to_string();
        self.function(
            &name,
            signature.fn_token.span,
            block.brace_token.span.close(),
        );
    }

    /// `fn name ... { ... }` among the tokens of a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut open: Option<(String, Span)> = None;
        let mut after_fn = None;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if ident == "fn" => after_fn = Some(ident.span()),
                TokenTree::Ident(ident) => {
                    if let Some(start) = after_fn.take() {
                        open = Some((ident.to_string(), start));
                    }
                }
                TokenTree::Group(group) => {
                    if group.delimiter() == Delimiter::Brace
                        && let Some((name, start)) = open.take()
                    {
                        self.function(&name, start, group.span_close());
                    }
                    self.tokens(group.stream());
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => open = None,
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Measure<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.method(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.method(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.method(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.tokens(call.tokens.clone());
    }
}
