//! Tells test code from the rest: the rules about imports are for what ships.

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Field, FieldValue, ImplItem, Item, Meta, Stmt, Token, TraitItem};

/// Whether one of the attributes leaves the code out of every build that is no test.
pub fn only_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        if attribute.path().is_ident("test") {
            return true;
        }
        if !attribute.path().is_ident("cfg") {
            return false;
        }
        let predicate = attribute.parse_args::<Meta>();
        predicate.is_ok_and(|predicate| without_test(&predicate) == Some(false))
    })
}

/// The value of a `cfg` predicate in a build that is no test; `None` when that depends on something else.
fn without_test(predicate: &Meta) -> Option<bool> {
    let Meta::List(list) = predicate else {
        return predicate.path().is_ident("test").then_some(false);
    };
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
    let parts: Vec<Option<bool>> = parts.ok()?.iter().map(without_test).collect();
    if list.path.is_ident("not") {
        return parts.first()?.map(|value| !value);
    }
    let decisive = list.path.is_ident("any");
    if parts.contains(&Some(decisive)) {
        return Some(decisive);
    }
    parts
        .iter()
        .all(|part| *part == Some(!decisive))
        .then_some(!decisive)
}

/// The attributes of what can be a test's alone.
pub trait Attributes {
    fn attributes(&self) -> &[Attribute];

    fn is_test(&self) -> bool {
        only_tests(self.attributes())
    }
}

impl Attributes for Item {
    fn attributes(&self) -> &[Attribute] {
        match self {
            Item::Const(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::ExternCrate(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::ForeignMod(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Macro(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Trait(item) => &item.attrs,
            Item::TraitAlias(item) => &item.attrs,
            Item::Type(item) => &item.attrs,
            Item::Union(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => &[],
        }
    }
}

impl Attributes for ImplItem {
    fn attributes(&self) -> &[Attribute] {
        match self {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            _ => &[],
        }
    }
}

impl Attributes for TraitItem {
    fn attributes(&self) -> &[Attribute] {
        match self {
            TraitItem::Const(item) => &item.attrs,
            TraitItem::Fn(item) => &item.attrs,
            TraitItem::Type(item) => &item.attrs,
            TraitItem::Macro(item) => &item.attrs,
            _ => &[],
        }
    }
}

impl Attributes for Stmt {
    fn attributes(&self) -> &[Attribute] {
        match self {
            Stmt::Local(local) => &local.attrs,
            Stmt::Macro(call) => &call.attrs,
            Stmt::Expr(Expr::Block(block), _) => &block.attrs,
            Stmt::Expr(Expr::Call(call), _) => &call.attrs,
            Stmt::Expr(Expr::MethodCall(call), _) => &call.attrs,
            Stmt::Expr(Expr::If(condition), _) => &condition.attrs,
            _ => &[],
        }
    }
}

impl Attributes for Field {
    fn attributes(&self) -> &[Attribute] {
        &self.attrs
    }
}

impl Attributes for FieldValue {
    fn attributes(&self) -> &[Attribute] {
        &self.attrs
    }
}

#[cfg(test)]
mod tests {
    use super::only_tests;

    #[test]
    fn only_what_no_other_build_has_is_a_test() {
        let tests = |predicate: &str| {
            let item: syn::ItemFn =
                syn::parse_str(&format!("#[cfg({predicate})] fn f() {{}}")).unwrap();
            only_tests(&item.attrs)
        };
        assert!(tests("test"));
        assert!(tests("all(test, not(loom))"));
        assert!(!tests("any(test, feature = \"std\")"));
        assert!(!tests("not(test)"));
        assert!(!tests("not(all(test, loom))"));
        assert!(!tests("loom"));
    }
}
