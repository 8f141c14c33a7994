//! What a plan says of system calls, taken apart.

use std::ops::Range;

use toml::Spanned;

use super::calls::{PARTIAL, names};
use super::errno::Errno;
use super::parse::{Checked, Name, RawFault, Wrong, duration};
use super::plan::{CallFault, CallOf, Comes};

/// What may become of a call: one of these.
const ONE_OF: &str = "say what comes of the call: fails, short, slow_s, corrupt or hold (hold and \
                      fails: it fails when the fault ends)";

/// Which calls are meant.
pub(super) fn call_of(
    call: &Spanned<String>,
    (path, site): (Option<&Spanned<String>>, Option<&Spanned<String>>),
    nth: Option<&Spanned<u64>>,
) -> Checked<CallOf> {
    let name = call.get_ref();
    if !names().any(|known| known == name) {
        let known: Vec<_> = names().collect();
        let what = format!("there is no call `{name}`: there are {}", known.join(", "));
        return Err(Wrong(call.span(), what));
    }
    if let Some(path) = path.filter(|path| path.get_ref().is_empty()) {
        return Err(Wrong(path.span(), "no file has an empty path".into()));
    }
    if let Some(nth) = nth.filter(|nth| *nth.get_ref() == 0) {
        return Err(Wrong(nth.span(), "it is counted from 1 on".into()));
    }
    Ok(CallOf {
        call: name.clone(),
        path: path.map(|path| path.get_ref().clone()),
        site: site.map(site_of).transpose()?,
        nth: nth.map_or(1, |nth| *nth.get_ref()),
    })
}

/// The number of a stack.
fn site_of(text: &Spanned<String>) -> Checked<u64> {
    u64::from_str_radix(text.get_ref(), 16).map_err(|_| {
        let what = "a site is a hexadecimal number, as `--points` prints it";
        Wrong(text.span(), what.into())
    })
}

/// The keys that faults of disks have, too.
const SLOW: &str = "slow_s";
const CORRUPT: &str = "corrupt";

/// The keys that only faults of calls have, as far as they are given.
fn keys(raw: &RawFault) -> impl Iterator<Item = (Range<usize>, &'static str)> {
    fn place<T>(of: Option<&Spanned<T>>) -> Option<Range<usize>> {
        of.map(Spanned::span)
    }
    let all = [
        (place(raw.call.as_ref()), "call"),
        (place(raw.path.as_ref()), "path"),
        (place(raw.site.as_ref()), "site"),
        (place(raw.nth.as_ref()), "nth"),
        (place(raw.once.as_ref()), "once"),
        (place(raw.fails.as_ref()), "fails"),
        (place(raw.short.as_ref()), "short"),
        (place(raw.slow_s.as_ref()), SLOW),
        (place(raw.hold.as_ref()), "hold"),
        (place(raw.corrupt.as_ref()), CORRUPT),
    ];
    all.into_iter()
        .filter_map(|(place, key)| Some((place?, key)))
}

/// Fails if another fault has them.
pub(super) fn refuse_keys_of_calls(raw: &RawFault) -> Checked<()> {
    let kind = *raw.fault.get_ref();
    let is_of_disks = |key: &str| [SLOW, CORRUPT].contains(&key);
    let mut others = keys(raw).filter(|(_, key)| kind != Name::Disk || !is_of_disks(key));
    match others.next() {
        Some((place, key)) if kind != Name::Call => {
            let or = if is_of_disks(key) { " or \"disk\"" } else { "" };
            let what = format!("`{key}` is only for fault = \"call\"{or}");
            Err(Wrong(place, what))
        }
        _ => Ok(()),
    }
}

/// A fault of calls.
pub(super) fn call_fault(raw: &RawFault) -> Checked<CallFault> {
    let Some(call) = &raw.call else {
        let what = "it needs `call`: which system calls are hit, such as call = \"fsync\"";
        return Err(Wrong(raw.fault.span(), what.into()));
    };
    let of = call_of(
        call,
        (raw.path.as_ref(), raw.site.as_ref()),
        raw.nth.as_ref(),
    )?;
    let comes = comes(raw)?;
    refuse_without_bytes(raw, &of)?;
    if let (Some(short), Comes::Short(0)) = (&raw.short, &comes) {
        let what = "a call that does nothing is no short one: say fails";
        return Err(Wrong(short.span(), what.into()));
    }
    Ok(CallFault {
        of,
        once: raw.once.as_ref().is_some_and(|once| *once.get_ref()),
        comes,
    })
}

/// Refuses what is about bytes, of a call that has none.
fn refuse_without_bytes(raw: &RawFault, of: &CallOf) -> Checked<()> {
    let short = raw.short.as_ref().map(|given| (given.span(), "short"));
    let corrupt = raw.corrupt.as_ref().map(|given| (given.span(), CORRUPT));
    match short.or(corrupt) {
        Some((place, key)) if !PARTIAL.contains(&of.call.as_str()) => {
            let what = format!("`{key}` is only for {}", PARTIAL.join(" and "));
            Err(Wrong(place, what))
        }
        _ => Ok(()),
    }
}

fn errno(name: &Spanned<String>) -> Checked<Errno> {
    Errno::named(name.get_ref()).ok_or_else(|| {
        let (given, known) = (name.get_ref(), Errno::names());
        let what = format!("there is no error `{given}`: there are {known}");
        Wrong(name.span(), what)
    })
}

fn comes(raw: &RawFault) -> Checked<Comes> {
    let hold = raw.hold.as_ref().is_some_and(|hold| *hold.get_ref());
    let fails = raw.fails.as_ref().map(errno).transpose()?;
    Ok(match (fails, &raw.short, &raw.slow_s, &raw.corrupt) {
        (error, None, None, None) if hold => Comes::Held(error),
        (Some(error), None, None, None) => Comes::Fails(error),
        (None, Some(short), None, None) if !hold => Comes::Short(*short.get_ref()),
        (None, None, Some(slow), None) if !hold => {
            Comes::Slow(duration(slow.span(), *slow.get_ref())?)
        }
        (None, None, None, Some(what)) if !hold => Comes::Corrupt(*what.get_ref()),
        _ => return Err(Wrong(raw.fault.span(), ONE_OF.into())),
    })
}
