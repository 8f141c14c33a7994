//! What every tree must be in itself, whatever was run.

use std::collections::BTreeMap;

use local_fs::{InodeKind, Tree};

use crate::{Contract, Finding, Promise};

/// Checks a recovered tree against itself.
pub(crate) fn check(contract: &Contract, tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<_> = tree
        .errors
        .iter()
        .filter(|error| !error.is_ours)
        .map(|error| {
            let reason = std::io::Error::from_raw_os_error(error.errno);
            Finding::new(
                Promise::Readable,
                &error.path,
                format!("{} fails: {reason}", error.doing),
            )
        })
        .collect();
    // A name that was not read may be one of those that are counted.
    if !tree.misses_names() {
        findings.extend(link_counts(tree));
        findings.extend(directories(contract, tree));
    }
    findings.retain(|finding| contract.promises(finding.promise));
    findings
}

/// The paths that lead to each inode.
fn paths(tree: &Tree) -> BTreeMap<u64, Vec<String>> {
    let mut paths: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut pending = vec![(tree.root, String::new())];
    while let Some((directory, path)) = pending.pop() {
        for (name, number) in tree.entries(directory) {
            let path = if path.is_empty() {
                name.to_owned()
            } else {
                format!("{path}/{name}")
            };
            let known = paths.entry(number).or_default();
            known.push(path.clone());
            if known.len() == 1 && number != tree.root {
                pending.push((number, path));
            }
        }
    }
    paths
}

fn link_counts(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, paths) in paths(tree) {
        let Some(inode) = tree.inode(number) else {
            continue;
        };
        let directory = matches!(inode.kind, InodeKind::Directory(_));
        if directory && (paths.len() > 1 || number == tree.root) {
            let what = format!("the directory is at {}", paths.join(" and at "));
            findings.push(Finding::new(Promise::RenameAtomic, &paths[0], what));
        } else if !directory && inode.link_count != paths.len() as u64 {
            let what = format!(
                "link count {} with {} names: {}",
                inode.link_count,
                paths.len(),
                first(&paths)
            );
            findings.push(Finding::new(Promise::LinkCount, &paths[0], what));
        }
    }
    findings
}

/// The first few, so that three thousand links stay readable.
fn first(paths: &[String]) -> String {
    const SHOWN_MAX: usize = 4;
    let shown = paths[..paths.len().min(SHOWN_MAX)].join(", ");
    if paths.len() > SHOWN_MAX {
        format!("{shown}, ...")
    } else {
        shown
    }
}

fn directories(contract: &Contract, tree: &Tree) -> Vec<Finding> {
    if !contract.promises(Promise::DirectoryLinkCount) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, inode) in &tree.inodes {
        // The root may hold directories of the file system's own, which are not walked.
        if !matches!(inode.kind, InodeKind::Directory(_)) || *number == tree.root {
            continue;
        }
        let is_directory = |number: u64| {
            tree.inode(number)
                .is_some_and(|inode| matches!(inode.kind, InodeKind::Directory(_)))
        };
        let expected = 2 + tree
            .entries(*number)
            .filter(|(_, child)| is_directory(*child))
            .count() as u64;
        if inode.link_count != expected {
            let path = paths(tree)
                .remove(number)
                .and_then(|paths| paths.into_iter().next())
                .unwrap_or_default();
            let what = format!(
                "link count {} of a directory; expected {expected}",
                inode.link_count
            );
            findings.push(Finding::new(Promise::DirectoryLinkCount, path, what));
        }
    }
    findings
}
