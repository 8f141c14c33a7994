//! Which files a plan means.

use std::path::Path;

/// Whether a path is one that a pattern means. `data` is the node's directory of data, if it has
/// one. `*` stands for any characters, `?` for one.
///
/// A pattern with `/` at its beginning is of the whole path. Others are of files in the directory of
/// data: one with `/` of the path from there, one without of the name. No pattern means all files
/// there, and `.` that directory itself.
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
}
