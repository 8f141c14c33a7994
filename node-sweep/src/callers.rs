//! The functions of a program that made a call, without those of its language.

use trace_store::Frame;

/// So many of them are named: those next to the call.
const CALLERS_MAX: usize = 3;

/// Modules in which every function is of the language: the C library, interpreters.
const LANGUAGES: [&str; 8] = [
    "ld-linux",
    "libc.",
    "libc-",
    "libpthread",
    "libpython",
    "python",
    "perl",
    "libjvm",
];

/// Functions of the standard libraries of Rust and Go, and of what a C compiler adds.
const LIBRARIES: [&str; 11] = [
    "std::",
    "core::",
    "alloc::",
    "__rust",
    "syscall.",
    "internal/",
    "os.",
    "runtime.",
    "_start",
    "__libc_start",
    "start_thread",
];

/// The functions next to the call that belong to the program, each with its place in the source if
/// that is known.
pub(crate) fn callers(stack: &[Frame]) -> Vec<String> {
    let own = stack.iter().filter(|frame| {
        let file = file_name(&frame.module);
        !LANGUAGES.iter().any(|language| file.starts_with(language))
    });
    let named = own.filter_map(|frame| Some((frame.function.as_deref()?, &frame.source)));
    let named = named.filter(|(function, _)| !is_of_library(function));
    let words = |(function, source): (&str, &Option<(String, u32)>)| match source {
        Some((path, line)) => format!("{function} ({}:{line})", file_name(path)),
        None => function.to_owned(),
    };
    named.map(words).take(CALLERS_MAX).collect()
}

/// Of a method, such as `<&dyn std::io::Write>::flush`, its type decides.
fn is_of_library(function: &str) -> bool {
    let mut name = function.trim_start_matches(['<', '&']);
    for word in ["dyn ", "mut "] {
        name = name.strip_prefix(word).unwrap_or(name);
    }
    LIBRARIES.iter().any(|library| name.starts_with(library))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(module: &str, function: &str, source: Option<(&str, u32)>) -> Frame {
        Frame {
            module: module.into(),
            address: 7,
            function: (!function.is_empty()).then(|| function.into()),
            source: source.map(|(path, line)| (path.into(), line)),
        }
    }

    #[test]
    fn what_belongs_to_the_language_is_left_out() {
        let stack = [
            frame("/usr/lib/libc.so.6", "__GI_fsync", None),
            frame("/opt/store", "std::fs::File::sync_all", None),
            frame(
                "/opt/store",
                "<&std::fs::File as std::io::Write>::write",
                None,
            ),
            frame(
                "/opt/store",
                "<&dyn core::ops::function::Fn<()>>::call",
                None,
            ),
            frame("/opt/store", "wal::sync", Some(("/src/store/wal.rs", 12))),
            frame("/opt/store", "", None),
            frame("/opt/store", "store::put", None),
            frame("/opt/store", "main", Some(("main.rs", 3))),
            frame("/opt/store", "more", None),
            frame("/opt/store", "std::rt::lang_start", None),
        ];
        let expected = ["wal::sync (wal.rs:12)", "store::put", "main (main.rs:3)"];
        assert_eq!(callers(&stack), expected);
        assert_eq!(callers(&stack[..4]), Vec::<String>::new());
    }

    #[test]
    fn an_interpreter_is_not_the_program() {
        let evaluation = |module| frame(module, "_PyEval_EvalFrameDefault", None);
        let stack = [
            evaluation("/usr/bin/python3.11"),
            evaluation("/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0"),
        ];
        assert!(callers(&stack).is_empty());
    }
}
