//! Which files a plan means.

use std::path::Path;

use brief::mask;

/// Stands before the file of a failure point, as the table of these has it.
const OF_POINT: &str = "./";

/// The pattern for the file of a failure point, which is empty if it is the directory of data: of no
/// file that counts as one of another point.
pub(in crate::online) fn of_point(file: &str) -> String {
    if file.is_empty() {
        return ".".to_owned();
    }
    format!("{OF_POINT}{file}")
}

/// Whether a path is one that a pattern means. `data` is the node's directory of data, if it has
/// one. `*` stands for any characters, `?` for one.
///
/// A pattern with `/` at its beginning is of the whole path. Others are of files in the directory of
/// data: one with `/` of the path from there, one without of the name. No pattern means all files
/// there, and `.` that directory itself.
///
/// One with `./` at its beginning is the path of a file from there, or what stands for it among failure
/// points: `#` for numbers and `*` for what was drawn at random ([`mask`]), and for nothing else.
pub(super) fn matches(pattern: Option<&str>, path: &Path, data: Option<&Path>) -> bool {
    let whole = path.to_string_lossy();
    if let Some(pattern) = pattern.filter(|pattern| pattern.starts_with('/')) {
        return fits(pattern.as_bytes(), whole.as_bytes());
    }
    let inside = match data {
        Some(data) => path.strip_prefix(data).ok(),
        None => path.strip_prefix("/").ok(),
    };
    let Some(inside) = inside else { return false };
    if let Some(file) = pattern.and_then(|pattern| pattern.strip_prefix(OF_POINT)) {
        let inside = inside.to_string_lossy();
        return inside == file || mask(&inside) == file;
    }
    match pattern {
        None => true,
        Some(".") => inside.as_os_str().is_empty(),
        Some(pattern) if pattern.contains('/') => {
            fits(pattern.as_bytes(), inside.to_string_lossy().as_bytes())
        }
        Some(pattern) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            fits(pattern.as_bytes(), name.as_bytes())
        }
    }
}

fn fits(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|skipped| fits(rest, &text[skipped..])),
        ([b'?', pattern @ ..], [_, text @ ..]) => fits(pattern, text),
        ([one, pattern @ ..], [other, text @ ..]) => one == other && fits(pattern, text),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(pattern: &str, path: &str) -> bool {
        let data = Some(Path::new("/run/a"));
        matches(
            Some(pattern).filter(|text| !text.is_empty()),
            Path::new(path),
            data,
        )
    }

    #[test]
    fn names_are_of_any_directory_of_the_data_and_paths_from_its_top() {
        assert!(is("*.wal", "/run/a/member/0.wal"));
        assert!(!is("*.wal", "/run/a/0.wal.tmp") && !is("*.wal", "/run/b/0.wal"));
        assert!(is("member/snap/db", "/run/a/member/snap/db"));
        assert!(!is("snap/db", "/run/a/member/snap/db") && is("*snap/db", "/run/a/member/snap/db"));
        assert!(is("/tmp/?", "/tmp/x") && !is("/tmp/?", "/tmp/xy"));
        assert!(is(".", "/run/a") && !is(".", "/run/a/x"));
        assert!(is("", "/run/a/anything") && !is("", "/tmp/x"));
    }

    #[test]
    fn the_file_of_a_point_is_no_other_point_s() {
        let of = |file: &str, path: &str| is(&of_point(file), &format!("/run/a/{path}"));
        assert!(of("seg-#", "seg-1") && of("seg-#", "seg-17"));
        assert!(!of("seg-#", "seg-1.index") && of("seg-#.index", "seg-1.index"));
        assert!(!of("seg-#", "seg-1/2") && !of("seg-#", "seg-"));
        assert!(of("value", "value") && !of("value", "sub/value"));
        assert!(of("", "") && !of("", "value"));
        // Numbers with letters count as numbers, and what is random as that.
        for path in [
            "0000000000000a3f.wal",
            "member/tmpx7Kq9Z2b.db",
            "a-1f0e70.d/x",
        ] {
            assert!(of(&mask(path), path), "{path}: {}", mask(path));
        }
        assert!(!of("*.db", "orders.db"));
        // Who writes a plan may name one file of several that are alike.
        assert!(is("./seg-1", "/run/a/seg-1") && !is("./seg-1", "/run/a/seg-2"));
        assert!(!is("./seg-#", "/tmp/seg-1"));
    }
}
