//! Bytes, lists and numbers for people. What a test says when it fails is read by people: a log of a
//! disk holds megabytes, and nobody reads them as numbers.

#![forbid(unsafe_code)]

mod callers;
mod likeness;

use std::fmt;
use std::hash::{DefaultHasher, Hasher};

pub use callers::{Called, callers};
pub use likeness::{Likeness, Site, mask, without_numbers};

/// So many bytes are shown as they are.
const SHOWN_BYTES_MAX: usize = 32;

/// So many of more are.
const FIRST_BYTES: usize = 16;

/// So many things of a list are shown.
const SHOWN_ITEMS_MAX: usize = 64;

/// Bytes whose `Debug` shows how many they are, the first of them, and a hash by which others that
/// begin alike are told from them.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Brief<T>(pub T);

impl<T: AsRef<[u8]>> fmt::Debug for Brief<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.as_ref();
        if bytes.len() <= SHOWN_BYTES_MAX {
            return write!(f, "b\"{}\"", bytes.escape_ascii());
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        let first = bytes[..FIRST_BYTES].escape_ascii();
        write!(
            f,
            "b\"{first}\".. ({} bytes, #{:08x})",
            bytes.len(),
            hasher.finish() as u32
        )
    }
}

/// Things whose `Debug` shows the first of them, and how many more there are.
pub struct BriefList<I>(pub I);

impl<I: ExactSizeIterator<Item: fmt::Debug> + Clone> fmt::Debug for BriefList<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        list.entries(self.0.clone().take(SHOWN_ITEMS_MAX));
        match self.0.len().saturating_sub(SHOWN_ITEMS_MAX) {
            0 => list.finish(),
            more => list.entry(&format_args!("and {more} more")).finish(),
        }
    }
}

/// So many of something, such as `1 byte`, `2 bytes` or `0 recoveries`.
pub fn counted<N: Copy + fmt::Display + PartialEq + From<u8>>(number: N, what: &str) -> String {
    format!(
        "{number} {}",
        singular_or_plural(number == N::from(1), what)
    )
}

/// A noun, as it is called of one or of any other number.
fn singular_or_plural(is_one: bool, what: &str) -> String {
    let ends = |endings: &[&str]| endings.iter().any(|ending| what.ends_with(ending));
    match what.strip_suffix('y') {
        _ if is_one => what.to_owned(),
        Some(stem) if !ends(&["ay", "ey", "oy", "uy"]) => format!("{stem}ies"),
        _ if ends(&["s", "sh", "ch", "x"]) => format!("{what}es"),
        _ => format!("{what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_all_else_is_plural() {
        let all = |number: u64| {
            ["byte", "recovery", "key", "flush", "lost write", "process"]
                .map(|what| counted(number, what))
                .join(", ")
        };
        assert_eq!(
            all(1),
            "1 byte, 1 recovery, 1 key, 1 flush, 1 lost write, 1 process"
        );
        assert_eq!(
            all(0),
            "0 bytes, 0 recoveries, 0 keys, 0 flushes, 0 lost writes, 0 processes"
        );
        assert_eq!(counted(21_usize, "byte"), "21 bytes");
    }

    #[test]
    fn few_bytes_are_shown_as_they_are() {
        assert_eq!(
            format!("{:?}", Brief("a name\0\"\u{e4}".as_bytes())),
            r#"b"a name\x00\"\xc3\xa4""#
        );
        assert_eq!(format!("{:?}", Brief([])), r#"b"""#);
        assert_eq!(
            format!("{:?}", Brief([b'x'; SHOWN_BYTES_MAX])).len(),
            SHOWN_BYTES_MAX + 3
        );
    }

    #[test]
    fn of_many_the_first_are_shown_and_others_that_begin_alike_are_told_from_them() {
        let mut bytes = vec![b'x'; 6 << 20];
        let one = format!("{:?}", Brief(&bytes));
        assert!(
            one.starts_with("b\"xxxxxxxxxxxxxxxx\".. (6291456 bytes, #") && one.len() < 60,
            "{one}"
        );
        bytes[5 << 20] = b'y';
        let other = format!("{:?}", Brief(&bytes));
        assert!(
            one != other && one.split('#').next() == other.split('#').next(),
            "{one} {other}"
        );
    }

    #[test]
    fn of_a_long_list_the_first_are_shown() {
        assert_eq!(format!("{:?}", BriefList([1, 2].iter())), "[1, 2]");
        let long = format!("{:?}", BriefList(0..SHOWN_ITEMS_MAX + 3));
        assert!(long.ends_with(", 62, 63, and 3 more]"), "{long}");
    }
}
