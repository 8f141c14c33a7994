//! The functions of a program that made a call, without those of its language.

/// So many of them are named: those next to the call.
const CALLERS_MAX: usize = 3;

/// Modules in which every function is of the language: the C library, interpreters, and what these call
/// the C library by.
const LANGUAGES: [&str; 10] = [
    "ld-linux",
    "libc.",
    "libc-",
    "libpthread",
    "libpython",
    "python",
    "_ctypes",
    "libffi",
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

/// A function on the way to a call.
#[derive(Debug, Clone, Copy)]
pub struct Called<'a> {
    /// The path of the program or library that it is in.
    pub module: &'a str,
    /// What it is called, if that is known.
    pub function: Option<&'a str>,
    /// The source file and the line, if they are known.
    pub source: Option<(&'a str, u32)>,
}

/// Where the sources of Rust's standard library were when it was compiled. What the compiler put in
/// the place of a call has no crate in its name.
const RUST_SOURCES: &str = "/rustc/";

/// The functions next to the call that belong to the program, each with its place in the source if
/// that is known. The stack goes from the call outwards.
pub fn callers<'a>(stack: impl IntoIterator<Item = Called<'a>>) -> Vec<String> {
    let own = stack.into_iter().filter(|frame| {
        let file = file_name(frame.module);
        !LANGUAGES.iter().any(|language| file.starts_with(language))
    });
    let named = own.filter_map(|frame| Some((frame.function?, frame.source)));
    let named = named.filter(|(function, source)| {
        let is_of_rust = source.is_some_and(|(path, _)| path.starts_with(RUST_SOURCES));
        !is_of_rust && !is_of_library(function)
    });
    let words = |(function, source): (&str, Option<(&str, u32)>)| match source {
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

    fn frame<'a>(module: &'a str, function: &'a str, source: Option<(&'a str, u32)>) -> Called<'a> {
        Called {
            module,
            function: (!function.is_empty()).then_some(function),
            source,
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
            frame(
                "/opt/store",
                "write_all<std::fs::File>",
                Some(("/rustc/1f2e/library/std/src/io/mod.rs", 1877)),
            ),
            frame("/opt/store", "wal::sync", Some(("/src/store/wal.rs", 12))),
            frame("/opt/store", "", None),
            frame("/opt/store", "store::put", None),
            frame("/opt/store", "main", Some(("main.rs", 3))),
            frame("/opt/store", "more", None),
            frame("/opt/store", "std::rt::lang_start", None),
        ];
        let expected = ["wal::sync (wal.rs:12)", "store::put", "main (main.rs:3)"];
        assert_eq!(callers(stack), expected);
        assert_eq!(callers(stack[..5].to_vec()), Vec::<String>::new());
    }

    #[test]
    fn an_interpreter_is_not_the_program() {
        let evaluation = |module| frame(module, "_PyEval_EvalFrameDefault", None);
        let stack = [
            evaluation("/usr/bin/python3.11"),
            evaluation("/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0"),
        ];
        assert!(callers(stack).is_empty());
    }
}
