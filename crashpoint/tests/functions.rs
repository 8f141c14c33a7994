//! A function can be seen whole: it has at most 300 tokens, unless it is a table.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};
use walkdir::WalkDir;

/// Tokens of a body, without its braces.
const TOKENS_MAX: usize = 300;

/// What may be longer: one match or one literal, whose rows are read one by one.
const TABLES: [&str; 12] = [
    // A match over all operations: each is an arm, of one expression.
    "ace-gen/src/choice.rs of",
    "ace-gen/src/convert.rs op",
    "ace-gen/src/resolve.rs operation",
    "ace-gen/src/text.rs act",
    // A sentence for each promise.
    "checker/src/promise.rs words",
    // What each command of the command line calls.
    "crashpoint/src/main.rs run",
    // What happened as rows of relations.
    "injector/src/online/facts/fill.rs fact",
    // How plans say what each trigger waits for.
    "injector/src/online/print.rs key",
    // What operations are called, for people.
    "node-sweep/src/operations.rs words",
    // Which function cuts which operation; which effects a sync of a scope is about.
    "pace-rules/src/nodes/micro/cutter.rs cut",
    "pace-rules/src/nodes/operations/reader/syncs.rs is_of",
    // Which function carries out which operation.
    "recorder/src/execute.rs run",
];

/// Tokens, with both delimiters of each group.
fn count(tokens: TokenStream) -> usize {
    let of = |token| match token {
        TokenTree::Group(group) => 2 + count(group.stream()),
        _ => 1,
    };
    tokens.into_iter().map(of).sum()
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = attribute.meta.to_token_stream().to_string();
        text == "test" || text.starts_with("cfg (test") || text.starts_with("cfg (all (test")
    })
}

/// The functions of a file that are longer than allowed, without tests.
struct Long {
    file: String,
    found: Vec<(String, usize)>,
}

impl Long {
    fn look_at(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let tokens = count(block.to_token_stream()) - 2;
        if tokens > TOKENS_MAX {
            let name = format!("{} {}", self.file, signature.ident);
            self.found.push((name, tokens));
        }
    }
}

impl<'ast> Visit<'ast> for Long {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !is_test(&function.attrs) {
            self.look_at(&function.sig, &function.block);
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            self.look_at(&function.sig, &function.block);
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.look_at(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

fn is_of_tests(path: &Path) -> bool {
    let mut parts = path.components().map(Component::as_os_str);
    parts.any(|part| {
        ["target", "tests", "benches", "workloads", "fuzz"]
            .iter()
            .any(|name| part == *name)
    })
}

fn long_functions() -> Vec<(String, usize)> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    // What is built comes and goes meanwhile.
    let is_read = |entry: &walkdir::DirEntry| {
        let name = entry.path().strip_prefix(root);
        !name.is_ok_and(is_of_tests)
    };
    let files = WalkDir::new(root).sort_by_file_name().into_iter();
    let files = files.filter_entry(is_read);
    let files = files.map(|entry| entry.expect("a folder that can be read").into_path());
    let mut all = Vec::new();
    for path in files.filter(|path| path.extension().is_some_and(|ending| ending == "rs")) {
        let name = path.strip_prefix(root).expect("in it");
        if name.file_stem().is_some_and(|stem| stem == "tests") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("text");
        let mut long = Long {
            file: name.display().to_string(),
            found: Vec::new(),
        };
        long.visit_file(&syn::parse_file(&text).expect("Rust"));
        all.append(&mut long.found);
    }
    all
}

#[test]
fn a_function_that_is_no_table_can_be_seen_whole() {
    let found = long_functions();
    let tables = BTreeSet::from(TABLES);
    let long: Vec<_> = found
        .iter()
        .filter(|(name, _)| !tables.contains(name.as_str()))
        .map(|(name, tokens)| format!("{name}: {tokens} tokens"))
        .collect();
    assert!(
        long.is_empty(),
        "longer than {TOKENS_MAX}:\n{}",
        long.join("\n")
    );
    // A table that is gone, or short, has no business in the list.
    let found: BTreeSet<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    let needless: Vec<_> = tables.difference(&found).collect();
    assert!(needless.is_empty(), "these are not long: {needless:?}");
}
