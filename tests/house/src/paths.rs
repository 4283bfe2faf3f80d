//! The paths that a file's code names outside tests, in `use` lines, inline, and inside macros; and the names that
//! each module defines.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, UseName, UseRename, UseTree, Visibility};

use crate::crates::{Crate, ModulePath, SourceFile};
use crate::test_code::Attributes;

/// A path as it is written.
pub struct Mention {
    /// The module that names it.
    pub module: ModulePath,
    pub file: PathBuf,
    pub line: usize,
    /// `*` is the last one of a glob.
    pub segments: Vec<String>,
    /// A `use` line that others see: what it names is only passed on.
    pub passed_on: bool,
}

/// What a module calls by a name.
#[derive(Default)]
pub struct Names {
    pub modules: HashSet<String>,
    /// Items that are defined in the module, other than modules.
    pub items: HashSet<String>,
    /// What `use` lines bring in, by the name that it gets.
    pub uses: HashMap<String, Vec<String>>,
    pub globs: Vec<Vec<String>>,
}

/// What the code of a crate says.
#[derive(Default)]
pub struct Said {
    pub mentions: Vec<Mention>,
    pub names: HashMap<ModulePath, Names>,
    /// Macros at the root of the crate (`macro_export`), by the module that defines them.
    pub macros: HashMap<String, ModulePath>,
}

pub fn said(krate: &Crate) -> Said {
    let mut said = Said::default();
    for file in &krate.files {
        let mut reader = Reader {
            file,
            module: file.module.clone(),
            in_function: false,
            said: &mut said,
        };
        reader.visit_file(&file.parsed.syntax);
    }
    said
}

/// What a path to another module starts with, but at the root of the crate.
const ROOTS: &[&str] = &["crate", "self", "super"];

struct Reader<'a> {
    file: &'a SourceFile,
    module: ModulePath,
    in_function: bool,
    said: &'a mut Said,
}

impl Reader<'_> {
    fn mention(&mut self, segments: Vec<String>, line: usize, passed_on: bool) {
        self.said.mentions.push(Mention {
            module: self.module.clone(),
            file: self.file.path.clone(),
            line,
            segments,
            passed_on,
        });
    }

    fn names(&mut self) -> &mut Names {
        self.said.names.entry(self.module.clone()).or_default()
    }

    fn read_use(&mut self, item: &ItemUse) {
        let passed_on = !matches!(item.vis, Visibility::Inherited);
        let mut leaves = Vec::new();
        leaves_of(&item.tree, &mut Vec::new(), &mut leaves);
        for leaf in leaves {
            if !self.in_function {
                let names = self.names();
                match leaf.name {
                    Some(name) => drop(names.uses.insert(name, leaf.segments.clone())),
                    None => names
                        .globs
                        .push(leaf.segments[..leaf.segments.len() - 1].to_vec()),
                }
            }
            self.mention(leaf.segments, leaf.line, passed_on);
        }
    }

    /// Notes the name that an item defines.
    fn define(&mut self, item: &Item) {
        if let Item::Macro(definition) = item
            && let Some(name) = &definition.ident
            && definition
                .attrs
                .iter()
                .any(|attribute| attribute.path().is_ident("macro_export"))
        {
            self.said
                .macros
                .insert(name.to_string(), self.module.clone());
        }
        let name = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Mod(item) => {
                let name = item.ident.to_string();
                self.names().modules.insert(name);
                return;
            }
            _ => return,
        };
        let name = name.to_string();
        self.names().items.insert(name);
    }

    /// Paths in the tokens of a macro, which have no syntax tree: what follows `crate`, `self` or `super`.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.read_tokens(group.stream()),
                TokenTree::Ident(ident) if ROOTS.iter().any(|root| ident == root) => {
                    let line = ident.span().start().line;
                    let mut found = Vec::new();
                    at = tree(&tokens, at, &mut Vec::new(), &mut found);
                    for segments in found.into_iter().filter(|segments| segments.len() > 1) {
                        self.mention(segments, line, false);
                    }
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
    }
}

/// Reads a path or a tree of paths that starts at `at`, after those in `before`; where it ends.
fn tree(
    tokens: &[TokenTree],
    mut at: usize,
    before: &mut Vec<String>,
    found: &mut Vec<Vec<String>>,
) -> usize {
    let is = |at: usize, sign: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == sign);
    let depth = before.len();
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(ident)) => before.push(ident.to_string()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let mut start = 0;
                while start < inner.len() {
                    start = tree(&inner, start, before, found).max(start + 1);
                }
                before.truncate(depth);
                return at + 1;
            }
            _ if is(at, '*') => before.push("*".into()),
            _ => break,
        }
        at += 1;
        if !(is(at, ':') && is(at + 1, ':')) {
            break;
        }
        at += 2;
    }
    if before.len() > depth {
        found.push(before.clone());
    }
    before.truncate(depth);
    at
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if item.is_test() {
            return;
        }
        if !self.in_function {
            self.define(item);
        }
        match item {
            Item::Use(item) => self.read_use(item),
            Item::Mod(item) => {
                let Some((_, items)) = &item.content else {
                    return;
                };
                self.module.push(item.ident.to_string());
                items.iter().for_each(|item| self.visit_item(item));
                self.module.pop();
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        let outer = std::mem::replace(&mut self.in_function, true);
        visit::visit_block(self, block);
        self.in_function = outer;
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        if !item.is_test() {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        if !item.is_test() {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        if !statement.is_test() {
            visit::visit_stmt(self, statement);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !field.is_test() {
            visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, value: &'ast syn::FieldValue) {
        if !value.is_test() {
            visit::visit_field_value(self, value);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let first = &path.segments[0].ident;
        let leads_out = self.module.is_empty() || ROOTS.iter().any(|root| first == root);
        if path.leading_colon.is_none() && path.segments.len() > 1 && leads_out {
            let segments = path
                .segments
                .iter()
                .map(|segment| segment.ident.to_string());
            self.mention(segments.collect(), first.span().start().line, false);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        visit::visit_macro(self, call);
        self.read_tokens(call.tokens.clone());
    }

    /// `pub(in crate::a)` imports nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

struct Leaf {
    segments: Vec<String>,
    /// `None` for a glob.
    name: Option<String>,
    line: usize,
}

fn leaves_of(tree: &UseTree, before: &mut Vec<String>, leaves: &mut Vec<Leaf>) {
    let mut leaf = |last: &str, name: Option<String>, span: Span| {
        let mut segments = before.clone();
        // `a::{self}` is `a`.
        if last != "self" || segments.is_empty() {
            segments.push(last.into());
        }
        let name = match name {
            Some(name) if name == "self" => segments.last().cloned(),
            name => name,
        };
        let line = span.start().line;
        leaves.push(Leaf {
            segments,
            name,
            line,
        });
    };
    match tree {
        UseTree::Name(UseName { ident }) => {
            leaf(&ident.to_string(), Some(ident.to_string()), ident.span())
        }
        UseTree::Rename(UseRename { ident, rename, .. }) => {
            leaf(&ident.to_string(), Some(rename.to_string()), ident.span());
        }
        UseTree::Glob(glob) => leaf("*", None, glob.star_token.span),
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            leaves_of(&path.tree, before, leaves);
            before.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                leaves_of(tree, before, leaves);
            }
        }
    }
}
