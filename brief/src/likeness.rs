//! Which names are alike: names that programs draw at random, or count up, differ in nothing that
//! matters.
//!
//! A part of a name is random if files that were created at one call site, in one directory, differ
//! in that part only, and most of these parts are no words. A name that is no other name's like
//! stays as it is: two findings of one cause cost less than one finding of two.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What stands for a random part of a name.
const RANDOM: &str = "*";

/// A random part has so many letters.
const RANDOM_LEN_MIN: usize = 4;

/// The token of a name in which it lies has so many.
const TOKEN_LEN_MIN: usize = 6;

/// The lengths of the parts of a UUID (RFC 9562).
const UUID: [usize; 5] = [8, 4, 4, 4, 12];

/// A call, and where in the program it is: the number of a stack.
pub type Site = (String, u64);

/// Names that differ in one token only: its place and length, and what the other tokens are like.
type Family = (usize, Vec<String>);

/// What the files of a run are called, without what is random in it.
#[derive(Debug, Default)]
pub struct Likeness {
    /// By path, of those that have something random.
    paths: HashMap<String, String>,
    /// By name, or random part of one.
    words: HashMap<String, String>,
}

/// The names with tokens that may be random, by what they have in common beside that token.
fn families<'n>(names: &[(&'n str, &'n str)]) -> BTreeMap<Family, Vec<(&'n str, &'n str)>> {
    let mut families: BTreeMap<Family, Vec<_>> = BTreeMap::new();
    for &(path, name) in names {
        let long = name.split('.').enumerate();
        for (place, token) in long.filter(|(_, token)| token.len() >= TOKEN_LEN_MIN) {
            // Of one length: that is how random names are made.
            let family = (place, with_token(name, place, &token.len().to_string()));
            families.entry(family).or_default().push((path, name));
        }
    }
    families
}

/// The tokens of a name without their numbers, and with something else in place of one of them.
fn with_token(name: &str, place: usize, token: &str) -> Vec<String> {
    let other = |(number, other): (usize, &str)| {
        if number == place {
            token.to_owned()
        } else {
            without_numbers(other)
        }
    };
    name.split('.').enumerate().map(other).collect()
}

impl Likeness {
    /// By the paths that were created at each site.
    pub fn of_created(created: &BTreeMap<Site, BTreeSet<String>>) -> Self {
        let mut this = Self::default();
        let depth = |path: &String| path.matches('/').count();
        let deepest = created
            .values()
            .flatten()
            .map(depth)
            .max()
            .unwrap_or_default();
        // Directories first: what is in alike directories may be alike.
        for level in 0..=deepest {
            for paths in created.values() {
                let mut siblings: BTreeMap<String, Vec<(&str, &str)>> = BTreeMap::new();
                for path in paths.iter().filter(|path| depth(path) == level) {
                    let (directory, name) = split(path);
                    siblings
                        .entry(this.pattern(directory))
                        .or_default()
                        .push((path, name));
                }
                for names in siblings.into_values() {
                    this.add(&names);
                }
            }
        }
        this
    }

    /// The names of files that were created at one site in one directory, with their paths.
    fn add(&mut self, names: &[(&str, &str)]) {
        for ((place, _), members) in families(names) {
            let token = |name: &str| name.split('.').nth(place).unwrap_or_default().to_owned();
            let tokens: BTreeSet<_> = members.iter().map(|(_, name)| token(name)).collect();
            let Some((before, after)) = random_part(&tokens) else {
                continue;
            };
            for (path, name) in members {
                let own = token(name);
                let (head, rest) = own.split_at(before);
                let (part, tail) = rest.split_at(rest.len() - after);
                if !is_plain_word(part) {
                    let like = [&without_numbers(head), RANDOM, &without_numbers(tail)].concat();
                    let pattern = with_token(name, place, &like).join(".");
                    self.add_random(path, pattern, part);
                }
            }
        }
    }

    /// A file whose name is this pattern, since a part of it is random.
    fn add_random(&mut self, path: &str, pattern: String, part: &str) {
        let (directory, name) = split(path);
        let whole = join(&self.pattern(directory), &pattern);
        self.paths.entry(path.to_owned()).or_insert(whole);
        self.words.entry(name.to_owned()).or_insert(pattern);
        if part.len() >= TOKEN_LEN_MIN {
            let random = RANDOM.to_owned();
            self.words.entry(part.to_owned()).or_insert(random);
        }
    }

    /// What a path is like: `#` stands for numbers, `*` for what is random.
    pub fn pattern(&self, path: &str) -> String {
        if let Some(known) = self.paths.get(path) {
            return known.clone();
        }
        let (directory, name) = split(path);
        let name = without_numbers(&without_uuids(name));
        if directory.is_empty() {
            name
        } else {
            join(&self.pattern(directory), &name)
        }
    }

    /// How many files there are of a pattern that has something random.
    pub fn files(&self, pattern: &str) -> usize {
        self.paths
            .values()
            .filter(|other| *other == pattern)
            .count()
    }

    /// Words in which names and numbers are alike if those of the files are.
    pub fn plain(&self, words: &str) -> String {
        let is_of_name =
            |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | '_' | '-');
        let words = without_uuids(words);
        let pieces = words
            .split_inclusive(|letter| !is_of_name(letter))
            .map(|piece| {
                let word = piece
                    .trim_end_matches(|letter| !is_of_name(letter))
                    .trim_end_matches('.');
                match self.words.get(word) {
                    Some(pattern) => pattern.clone() + &piece[word.len()..],
                    None => without_numbers(piece),
                }
            });
        pieces.collect()
    }
}

/// What a path is like whatever other paths there are: `#` stands for numbers, `*` for what no person
/// would have called a file. So it is the same for the same code in another run. What was drawn at
/// random and looks like a word stays as it is.
pub fn mask(path: &str) -> String {
    let is_known = |piece: &str| is_word(piece) || is_hex_number(piece);
    let piece = |piece: &str| match piece.trim_end_matches(['-', '_']) {
        number if is_hex_number(number) => format!("#{}", &piece[number.len()..]),
        _ => without_numbers(piece),
    };
    let token = |token: &str| {
        let is_drawn = token.len() >= TOKEN_LEN_MIN
            && is_of_random(token)
            && !token.split(['-', '_']).all(is_known);
        if is_drawn {
            return RANDOM.to_owned();
        }
        token.split_inclusive(['-', '_']).map(piece).collect()
    };
    let name = |name: &str| {
        let name = without_uuids(name);
        name.split('.').map(token).collect::<Vec<_>>().join(".")
    };
    path.split('/').map(name).collect::<Vec<_>>().join("/")
}

/// Whether something is a number with letters among its digits, as long as only programs write them.
fn is_hex_number(piece: &str) -> bool {
    piece.len() >= TOKEN_LEN_MIN
        && piece.bytes().all(|letter| letter.is_ascii_hexdigit())
        && piece.bytes().any(|letter| letter.is_ascii_digit())
}

/// The words with every number in them made the same: what differs in no more is alike.
pub fn without_numbers(words: &str) -> String {
    let mut plain = String::with_capacity(words.len());
    for letter in words.chars() {
        if !letter.is_ascii_digit() {
            plain.push(letter);
        } else if !plain.ends_with('#') {
            plain.push('#');
        }
    }
    plain
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() {
        name.to_owned()
    } else {
        format!("{directory}/{name}")
    }
}

/// How long the beginnings and the ends are that tokens of one length have in common, if what is
/// between them is random.
fn random_part(tokens: &BTreeSet<String>) -> Option<(usize, usize)> {
    let (first, last) = (tokens.first()?, tokens.last()?);
    if tokens.len() < 2 || tokens.iter().any(|token| !token.is_ascii()) {
        return None;
    }
    // They are sorted: what these two have in common all have.
    let before = first
        .bytes()
        .zip(last.bytes())
        .take_while(|(one, other)| one == other)
        .count();
    let ends = |token: &String| {
        first
            .bytes()
            .rev()
            .zip(token.bytes().rev())
            .take_while(|(one, other)| one == other)
            .count()
    };
    let after = tokens.iter().map(ends).min()?.min(first.len() - before);
    let parts = tokens
        .iter()
        .map(|token| &token[before..token.len() - after]);
    let is_long = first.len() - before - after >= RANDOM_LEN_MIN;
    let random = parts.clone().filter(|part| !is_word(part)).count();
    (is_long && 2 * random > tokens.len() && parts.clone().all(is_of_random))
        .then_some((before, after))
}

fn is_of_random(part: &str) -> bool {
    part.bytes()
        .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'_' | b'-'))
}

/// Whether something could be what a person has called a file: words, each of them small letters,
/// perhaps after a capital, or capitals only, and a number at the end.
fn is_word(part: &str) -> bool {
    let mut pieces = part.split(['_', '-']).filter(|piece| !piece.is_empty());
    pieces.all(|piece| {
        let letters = piece.trim_end_matches(|letter: char| letter.is_ascii_digit());
        if letters.bytes().all(|letter| letter.is_ascii_uppercase()) {
            return true;
        }
        // Each capital begins a word of two letters and more; so does the first letter.
        let is_small = |letter: &u8| letter.is_ascii_lowercase();
        let bytes = letters.as_bytes();
        let is_in_word = |(place, letter): (usize, &u8)| {
            is_small(letter)
                || letter.is_ascii_uppercase() && bytes.get(place + 1).is_some_and(is_small)
        };
        let begins_word = bytes.get(1).is_none_or(is_small);
        begins_word && bytes.iter().enumerate().all(is_in_word) && consonants(letters) < 5
    })
}

/// Whether something is most likely one word, whatever its neighbours are called.
fn is_plain_word(part: &str) -> bool {
    let rest = part.get(1..).unwrap_or_default();
    let is_of_one_case = part.bytes().all(|letter| letter.is_ascii_uppercase())
        || rest.bytes().all(|letter| letter.is_ascii_lowercase());
    part.bytes().all(|letter| letter.is_ascii_alphabetic())
        && is_of_one_case
        && consonants(part) < 4
}

/// The most consonants in a row.
fn consonants(letters: &str) -> usize {
    let vowels = ['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O', 'U'];
    letters
        .split(vowels)
        .map(str::len)
        .max()
        .unwrap_or_default()
}

/// The words with every UUID in them made the same.
fn without_uuids(words: &str) -> String {
    let mut plain = String::with_capacity(words.len());
    let mut rest = words;
    while let Some(letter) = rest.chars().next() {
        let is_inside = plain.ends_with(|letter: char| letter.is_ascii_alphanumeric());
        if let Some(len) = uuid_len(rest).filter(|_| !is_inside) {
            plain.push_str(RANDOM);
            rest = &rest[len..];
        } else {
            plain.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    plain
}

/// The length of the UUID at the beginning.
fn uuid_len(words: &str) -> Option<usize> {
    let len = UUID.iter().sum::<usize>() + UUID.len() - 1;
    let uuid = words.get(..len)?;
    let is_end = !words[len..].starts_with(|letter: char| letter.is_ascii_alphanumeric());
    let is_hex = |part: &str| part.bytes().all(|letter| letter.is_ascii_hexdigit());
    let mut parts = uuid.split('-');
    (is_end
        && UUID.iter().all(|len| {
            parts
                .next()
                .is_some_and(|part| part.len() == *len && is_hex(part))
        }))
    .then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likeness(names: &[&str]) -> Likeness {
        let site = ("openat".to_owned(), 7);
        Likeness::of_created(&BTreeMap::from([(
            site,
            names.iter().map(ToString::to_string).collect(),
        )]))
    }

    fn patterns(names: &[&str]) -> BTreeSet<String> {
        let likeness = likeness(names);
        names.iter().map(|name| likeness.pattern(name)).collect()
    }

    #[track_caller]
    fn assert_alike(names: &[&str], pattern: &str) {
        assert_eq!(patterns(names), BTreeSet::from([pattern.to_owned()]));
    }

    #[test]
    fn names_that_a_program_drew_are_alike() {
        assert_alike(
            &["message.TVsH5XAS", "message.CNEof5r6", "message.cOuqfcmi"],
            "message.*",
        );
        assert_alike(&["tmpk3j2_x9a", "tmpqq01ab_z", "tmp8v_wx2lm"], "tmp*");
        assert_alike(&[".tmpAbC3xZ", ".tmpzY9kQ2"], ".tmp*");
        assert_alike(&["e69de29bb2d1d643", "4b825dc642cb6eb9"], "*");
        assert_alike(
            &["snap-9f86d081884c.db", "snap-60303ae22b99.db"],
            "snap-*.db",
        );
    }

    #[test]
    fn numbers_and_uuids_are_alike_even_alone() {
        assert_alike(&["log.000001", "log.000002"], "log.#");
        assert_alike(
            &[
                "550e8400-e29b-41d4-a716-446655440000.part",
                "6ba7b810-9dad-11d1-80b4-00c04fd430c8.part",
            ],
            "*.part",
        );
        assert_alike(&["run-550e8400-e29b-41d4-a716-446655440000"], "run-*");
    }

    #[test]
    fn in_directories_that_are_alike_files_are_alike() {
        let names = [
            "q.Xk39dLqz",
            "q.Mw81tRbe",
            "q.Xk39dLqz/data",
            "q.Mw81tRbe/data",
        ];
        assert_eq!(
            patterns(&names),
            BTreeSet::from(["q.*".to_owned(), "q.*/data".to_owned()])
        );
    }

    #[test]
    fn a_word_among_names_that_were_drawn_stays_what_it_is() {
        let names = ["m.TVsH5XAS", "m.CNEof5r6", "m.cOuqfcmi", "m.archived"];
        assert_eq!(
            patterns(&names),
            BTreeSet::from(["m.*".to_owned(), "m.archived".to_owned()])
        );
        // Some that were drawn look like words.
        assert_alike(
            &[
                "m.QHQcphqU",
                "m.ZVtxJsg9",
                "m.lqdJA2Ud",
                "m.rhyvdynq",
                "m.xUcmfNk7",
            ],
            "m.*",
        );
    }

    #[track_caller]
    fn assert_different(names: &[&str]) {
        assert_eq!(patterns(names).len(), names.len(), "{:?}", patterns(names));
    }

    #[test]
    fn names_that_mean_something_are_not_alike() {
        assert_different(&["customers.db", "purchases.db"]);
        assert_different(&["userTable1", "itemCache2"]);
        assert_different(&["CURRENT", "LOCKING"]);
        assert_different(&["data-journal", "data-pending"]);
        assert_different(&["message.TVsH5XAS", "journal.CNEof5r6"]);
        assert_different(&["inboxState", "indexCache", "innerTable"]);
        // One of a kind is no pattern.
        assert_different(&["message.TVsH5XAS", "message.old"]);
        assert_different(&["message.TVsH5XAS", "message.archived"]);
    }

    #[test]
    fn a_name_alone_is_masked_if_nobody_would_have_given_it() {
        for (path, pattern) in [
            ("log/wal-00000012", "log/wal-#"),
            ("rewrite-bg-7.tmp", "rewrite-bg-#.tmp"),
            ("0000000000000001-00000000000000a7.wal", "#-#.wal"),
            ("log.1a00000b", "log.#"),
            ("tmpk3j2_x9a", "*"),
            ("ballot.tmp", "ballot.tmp"),
            ("message.TVsH5XAS", "message.*"),
            ("OPTIONS-000007", "OPTIONS-#"),
            ("member/snap/db", "member/snap/db"),
            ("run-550e8400-e29b-41d4-a716-446655440000/x", "run-*/x"),
        ] {
            assert_eq!(mask(path), pattern);
        }
    }

    #[test]
    fn names_of_other_call_sites_are_not_alike() {
        let of = |stack, name: &str| {
            (
                ("openat".to_owned(), stack),
                BTreeSet::from([name.to_owned()]),
            )
        };
        let likeness =
            Likeness::of_created(&BTreeMap::from([of(1, "a.TVsH5XAS"), of(2, "a.CNEof5r6")]));
        assert_ne!(
            likeness.pattern("a.TVsH5XAS"),
            likeness.pattern("a.CNEof5r6")
        );
    }

    #[test]
    fn what_a_check_says_of_such_names_is_alike() {
        let likeness = likeness(&["message.TVsH5XAS", "message.CNEof5r6"]);
        assert_eq!(
            likeness.plain("message.TVsH5XAS is gone, 3 are left"),
            "message.* is gone, # are left"
        );
        assert_eq!(
            likeness.plain("`CNEof5r6` of message.CNEof5r6."),
            "`*` of message.*."
        );
        assert_eq!(likeness.plain("orders.db is gone"), "orders.db is gone");
    }
}
