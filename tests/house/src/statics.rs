//! Process-wide state of the sockets crate has one owner: no `static` but inside `process_wide!`, which is a macro and
//! hence no item here, and tables that never change.

use syn::visit::{self, Visit};
use syn::{Item, ItemStatic, StaticMutability, Type};

use crate::crates::{Crate, SourceFile};
use crate::rules::{Rule, Violation};
use crate::test_code::Attributes;

pub fn check(krate: &Crate) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in &krate.files {
        Finder {
            file,
            found: &mut found,
        }
        .visit_file(&file.parsed.syntax);
    }
    found
}

struct Finder<'a> {
    file: &'a SourceFile,
    found: &'a mut Vec<Violation>,
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !item.is_test() {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_static(&mut self, item: &'ast ItemStatic) {
        if !matches!(item.mutability, StaticMutability::Mut(_)) && constant(&item.ty) {
            return;
        }
        self.found.push(Violation {
            rule: Rule::Static,
            file: self.file.path.clone(),
            line: item.static_token.span.start().line,
            text: format!(
                "static {}: process-wide state belongs into process_wide!",
                item.ident
            ),
        });
    }
}

/// Whether a value of this type cannot change: numbers, texts, functions, and tables of them.
fn constant(of: &Type) -> bool {
    const PLAIN: &[&str] = &[
        "bool", "char", "str", "u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64",
        "isize", "c_int", "c_long",
    ];
    match of {
        Type::Array(array) => constant(&array.elem),
        Type::Slice(slice) => constant(&slice.elem),
        Type::Reference(reference) => reference.mutability.is_none() && constant(&reference.elem),
        Type::Tuple(tuple) => tuple.elems.iter().all(constant),
        Type::BareFn(_) => true,
        Type::Path(path) => {
            let last = path.path.segments.last();
            last.is_some_and(|last| PLAIN.iter().any(|plain| last.ident == plain))
        }
        _ => false,
    }
}
