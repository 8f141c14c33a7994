//! The figure in ARCHITECTURE.md is what cargo says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use walkdir::WalkDir;

/// What only tests are made of.
const OF_TESTS: [&str; 6] = [
    "amx-host",
    "elects",
    "end-to-end",
    "other-day",
    "store",
    "toy-fs",
];

/// The crates of the workspace as cargo describes them.
fn packages() -> Vec<Value> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let arguments = [
        "metadata",
        "--no-deps",
        "--offline",
        "--format-version",
        "1",
        "--manifest-path",
        manifest,
    ];
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("an object");
    metadata["packages"].as_array().expect("packages").clone()
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

/// What a crate depends on, but for its tests.
fn needed(package: &Value) -> impl Iterator<Item = String> {
    let all = package["dependencies"].as_array().expect("dependencies");
    all.iter()
        .filter(|dependency| dependency["kind"].is_null())
        .map(|dependency| text(&dependency["name"]))
}

/// The crates of the workspace, each with those of them that it depends on.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let packages = packages();
    let names: BTreeSet<_> = packages
        .iter()
        .map(|package| text(&package["name"]))
        .collect();
    let of = |package: &Value| {
        needed(package)
            .filter(|name| names.contains(name))
            .collect()
    };
    let all = packages
        .iter()
        .map(|package| (text(&package["name"]), of(package)));
    all.filter(|(name, _)| !OF_TESTS.contains(&name.as_str()))
        .collect()
}

/// How many crates stand below one, one on the other.
fn layer(name: &str, all: &BTreeMap<String, BTreeSet<String>>) -> usize {
    all[name]
        .iter()
        .map(|below| 1 + layer(below, all))
        .max()
        .unwrap_or(0)
}

/// The figure: the crates that most others stand below first, each with those that it depends on.
fn figure() -> String {
    let all = dependencies();
    let mut names: Vec<_> = all.keys().collect();
    names.sort_by_key(|name| (usize::MAX - layer(name, &all), name.as_str()));
    let line = |name: &&String| {
        let below: Vec<_> = all[*name].iter().map(String::as_str).collect();
        format!("{} {name:12} -> {}", layer(name, &all), below.join(", "))
            .trim_end_matches(" -> ")
            .trim_end()
            .to_owned()
            + "\n"
    };
    names.iter().map(line).collect()
}

#[test]
fn the_figure_is_what_cargo_says() {
    let page = include_str!("../../ARCHITECTURE.md");
    let shown = page
        .split_once("```dependencies\n")
        .and_then(|(_, rest)| rest.split_once("```"));
    let shown = shown
        .expect("ARCHITECTURE.md has a block ```dependencies")
        .0;
    let figure = figure();
    assert!(
        shown == figure,
        "put this into the block ```dependencies of ARCHITECTURE.md:\n{figure}"
    );
}

#[test]
fn no_library_depends_on_anyhow() {
    let is_library = |package: &&Value| {
        let targets = package["targets"].as_array().expect("targets");
        let is_one = |target: &Value| {
            target["kind"]
                .as_array()
                .is_some_and(|kinds| kinds.contains(&"lib".into()))
        };
        targets.iter().any(is_one)
    };
    let packages = packages();
    let libraries: Vec<_> = packages.iter().filter(is_library).collect();
    assert!(
        libraries.len() > 20,
        "cargo names {} libraries",
        libraries.len()
    );
    for library in libraries {
        assert!(
            needed(library).all(|name| name != "anyhow"),
            "{} is a library: its errors are types that say what was done to what",
            library["name"]
        );
    }
}

/// `make test` runs no others.
#[test]
fn only_ace_gen_has_examples_in_its_documentation() {
    let mut having = BTreeSet::new();
    for package in packages() {
        let manifest = text(&package["manifest_path"]);
        let sources = Path::new(&manifest).with_file_name("src");
        let files = WalkDir::new(sources).into_iter().filter_map(Result::ok);
        for file in files.filter(|file| file.path().extension().is_some_and(|end| end == "rs")) {
            if has_examples(&fs::read_to_string(file.path()).expect("read")) {
                having.insert(text(&package["name"]));
            }
        }
    }
    assert_eq!(having, ["ace-gen".to_owned()].into());
}

/// Whether a fence opens in a comment of documentation that does not say that it is text.
fn has_examples(source: &str) -> bool {
    let comments = source.lines().map(str::trim_start);
    let comments = comments.filter_map(|line| {
        let comment = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"))?;
        comment.trim_start().strip_prefix("```")
    });
    comments.step_by(2).any(|language| language != "text")
}
