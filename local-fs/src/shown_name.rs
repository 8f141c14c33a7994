//! Names as text. A file system's names are bytes, which need not be UTF-8.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStringExt;

/// What a byte that is no text is shown as begins with; two hexadecimal digits follow.
const ESCAPE: &[u8] = b"\\x";

/// A name as text, from which [`raw_path`] has its bytes again: what is not UTF-8 is shown as
/// `\xff`, and a backslash that looks like the beginning of that as `\x5c`.
pub(crate) fn shown_name(name: &[u8]) -> String {
    let mut shown = String::new();
    for chunk in name.utf8_chunks() {
        shown += &chunk.valid().replace("\\x", "\\x5cx");
        for byte in chunk.invalid() {
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

/// A path as the kernel knows it, from the one that a [`Tree`](crate::Tree) shows.
pub fn raw_path(shown: &str) -> Cow<'_, OsStr> {
    if !shown.contains("\\x") {
        return Cow::Borrowed(OsStr::new(shown));
    }
    let (mut raw, mut rest) = (Vec::new(), shown.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let escaped = rest.strip_prefix(ESCAPE).and_then(|rest| {
            let digits = str::from_utf8(rest.get(..2)?).ok()?;
            Some((u8::from_str_radix(digits, 16).ok()?, &rest[2..]))
        });
        let (byte, left) = escaped.unwrap_or((*first, after));
        raw.push(byte);
        rest = left;
    }
    Cow::Owned(OsString::from_vec(raw))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn every_name_is_told_from_all_others_and_found_again() {
        let names: [&[u8]; 9] = [
            b"foo",
            b"\xff",
            b"\xfe",
            b"a\xff\xfeb",
            b"\\xff",
            b"\\x5cx",
            b"\\",
            b"\\\\x\xc3",
            "\u{fffd}ä".as_bytes(),
        ];
        for name in names {
            let shown = shown_name(name);
            assert_eq!(raw_path(&shown).as_bytes(), name, "{shown}");
        }
        assert_eq!(shown_name(b"A\xffb"), "A\\xffb");
        assert_eq!(shown_name("ä".as_bytes()), "ä");
    }
}
