//! What a person is told about a text that is not a workload.

use workloads::{OPERATIONS_MAX, Reader};

fn error(text: &str) -> String {
    workloads::parse(text, "foo.wl")
        .expect_err(text)
        .to_string()
}

fn errors(texts: &[&str]) -> String {
    texts.iter().map(|text| error(text) + "\n").collect()
}

#[test]
fn an_unknown_operation_is_named_with_what_was_meant() {
    insta::assert_snapshot!(errors(&[
        "creat foo\n\ncreat A; fsnc foo",
        "creat foo; mv foo bar",
        "Sync",
        "checkpoint",
        "frobnicate foo",
        "\"creat\" foo",
        "workloda foo",
    ]), @"
    foo.wl:3:10: unknown operation 'fsnc'; did you mean 'fsync'?
    foo.wl:1:12: unknown operation 'mv'; did you mean 'rename'?
    foo.wl:1:1: unknown operation 'Sync'; did you mean 'sync'?
    foo.wl:1:1: unknown operation 'checkpoint'; did you mean '!'?
    foo.wl:1:1: unknown operation 'frobnicate'
    foo.wl:1:1: expected an operation (without quotes), found 'creat'
    foo.wl:1:1: unknown operation 'workloda'; did you mean 'workload'?
    ");
}

#[test]
fn an_argument_that_is_missing_or_wrong_is_said_in_words() {
    insta::assert_snapshot!(errors(&[
        "write foo 0 abc",
        "write foo 0",
        "write foo 0 ; sync",
        "write",
        "write foo 1K 4096 synk",
        "truncate foo -1",
        "truncate foo 4G",
        "truncate foo 4*",
        "creat foo 0888",
        "creat foo rw",
        "chmod foo",
        "falloc foo punch_hole 0 4K",
        "rename foo bar replace",
        "mknod foo x",
        "mknod foo c 1",
        "open foo",
        "open foo to @h",
        "open foo as h",
        "open foo as @",
        "symlink \"\" foo",
        "setxattr foo user.a",
        "drop_caches 4",
        "reflink foo 0 4K bar",
        "source # none",
        "workload ; creat foo",
    ]), @"
    foo.wl:1:13: expected a length in bytes (such as 4096 or 4K), found 'abc'
    foo.wl:1:12: expected a length in bytes (such as 4096 or 4K), found the end of the operation
    foo.wl:1:12: expected a length in bytes (such as 4096 or 4K), found the end of the operation
    foo.wl:1:6: expected a path or a handle (such as A/foo or @name), found the end of the operation
    foo.wl:1:19: expected 'sync', 'dsync' or the end of the operation, found 'synk'
    foo.wl:1:14: expected a size in bytes (such as 4096 or 4K), found '-1'
    foo.wl:1:14: expected a size in bytes (such as 4096 or 4K), found '4G'
    foo.wl:1:14: expected a size in bytes (such as 4096 or 4K), found '4*'
    foo.wl:1:11: expected an octal mode (such as 0644), found '0888'
    foo.wl:1:11: expected an octal mode (such as 0644), found 'rw'
    foo.wl:1:10: expected an octal mode (such as 0644), found the end of the operation
    foo.wl:1:12: expected a mode of fallocate (alloc, keep_size, zero_range, zero_range|keep_size, punch_hole|keep_size, collapse_range, insert_range or unshare_range), found 'punch_hole'
    foo.wl:1:16: expected 'noreplace', 'exchange', 'whiteout' or the end of the operation, found 'replace'
    foo.wl:1:11: expected 'c' or 'b' (character or block device), found 'x'
    foo.wl:1:14: expected a minor device number, found the end of the operation
    foo.wl:1:9: expected 'as @HANDLE', found the end of the operation
    foo.wl:1:10: expected 'as @HANDLE', found 'to'
    foo.wl:1:13: expected a handle (such as @name), found 'h'
    foo.wl:1:13: expected a handle (such as @name), found '@'
    foo.wl:1:9: expected the target of the symbolic link (at most 4095 bytes), found ''
    foo.wl:1:20: expected the value of the extended attribute (at most 65536 bytes), found the end of the operation
    foo.wl:1:13: expected 1 (page cache), 2 (dentries and inodes) or 3 (both), found '4'
    foo.wl:1:21: expected an offset in bytes (such as 4096 or 4K), found the end of the operation
    foo.wl:1:8: expected where the workload is from, found the end of the operation
    foo.wl:1:9: expected the name of the workload, found the end of the operation
    ");
}

#[test]
fn a_number_out_of_range_is_refused() {
    insta::assert_snapshot!(errors(&[
        "truncate foo 9223372036854775808",
        "truncate foo 99999999999999999999999",
        "truncate foo 9007199254740992K",
        "truncate foo 3037000500*3037000500",
        "write foo 9223372036854775807 1",
        "write foo 0 99999999999M",
        "append foo 1025M",
        "creat foo 10000",
        "creat foo 777777777777777777777777",
        "chown foo 4294967296 0",
        "mknod foo c 4096 0",
    ]), @"
    foo.wl:1:14: 9223372036854775808 is too large for a size in bytes (at most 9223372036854775807)
    foo.wl:1:14: 99999999999999999999999 is too large for a size in bytes (at most 9223372036854775807)
    foo.wl:1:14: 9007199254740992K is too large for a size in bytes (at most 9223372036854775807)
    foo.wl:1:14: 3037000500*3037000500 is too large for a size in bytes (at most 9223372036854775807)
    foo.wl:1:31: 1 is too large for a length at this offset (at most 0)
    foo.wl:1:13: 99999999999M is too large for a length in bytes (at most 1073741824)
    foo.wl:1:12: 1025M is too large for a length in bytes (at most 1073741824)
    foo.wl:1:11: 10000 is too large for an octal mode (at most 7777)
    foo.wl:1:11: 777777777777777777777777 is too large for an octal mode (at most 7777)
    foo.wl:1:11: 4294967296 is too large for a user id (at most 4294967295)
    foo.wl:1:13: 4096 is too large for a major device number (at most 4095)
    ");
}

#[test]
fn a_path_stays_below_the_root() {
    insta::assert_snapshot!(errors(&[
        "creat /foo",
        "creat A//foo",
        "creat A/",
        "creat \"\"",
        "creat A/../../foo",
        "creat ./foo",
        "creat \"a\0b\"",
        "mkdir .",
        "link foo @h",
    ]), @"
    foo.wl:1:7: path '/foo' must be relative to the root of the file system
    foo.wl:1:7: path 'A//foo' has an empty component
    foo.wl:1:7: path 'A/' has an empty component
    foo.wl:1:7: path '' has an empty component
    foo.wl:1:7: path 'A/../../foo' must not contain '..'
    foo.wl:1:7: path './foo' has a '.' in it (only the root is written '.')
    foo.wl:1:7: path 'a�b' contains a NUL character
    foo.wl:1:7: path '.' is the root, which cannot be made, renamed or removed
    foo.wl:1:10: expected a path (a handle cannot stand here), found '@h'
    ");
    assert!(error(&format!("creat {}", "a/".repeat(3000))).contains("is longer than 4095 bytes"));
}

#[test]
fn a_handle_is_used_only_while_it_is_open() {
    insta::assert_snapshot!(errors(&[
        "fsync @h",
        "open foo as @h; open bar as @h",
        "open foo as @h; close @h; fsync @h",
        "workload one; open foo as @h; workload two; fsync @h",
    ]), @"
    foo.wl:1:7: handle '@h' is not open: open it with 'open PATH as @h' first
    foo.wl:1:29: handle '@h' is already open
    foo.wl:1:33: handle '@h' is not open: open it with 'open PATH as @h' first
    foo.wl:1:51: handle '@h' is not open: open it with 'open PATH as @h' first
    ");
    assert!(
        workloads::parse(
            "open foo as @h; close @h; open bar as @h; fsync @h",
            "foo.wl"
        )
        .is_ok()
    );
}

#[test]
fn sections_come_once_and_in_order() {
    insta::assert_snapshot!(errors(&[
        "setup; creat foo; setup",
        "run; creat foo; run",
        "run; creat foo; setup",
        "creat foo; setup",
        "creat foo; run",
        "setup; creat foo; run; sync; setup",
        "setup; creat foo; !",
        "source B3\nworkload foo",
    ]), @"
    foo.wl:1:19: 'setup' is given twice in this workload
    foo.wl:1:17: 'run' is given twice in this workload
    foo.wl:1:17: 'setup' must come before 'run'
    foo.wl:1:12: 'setup' must come before the first operation
    foo.wl:1:12: 'run' must come before the first operation (or put 'setup' before the operations it needs)
    foo.wl:1:30: 'setup' is given twice in this workload
    foo.wl:1:19: '!' is a crash point: none can be in 'setup', which is durable before recording starts
    foo.wl:2:1: 'workload' must come before its 'source' and 'expect'
    ");
}

#[test]
fn nothing_may_trail_an_operation() {
    insta::assert_snapshot!(errors(&[
        "fsync foo bar",
        "sync foo",
        "setup creat foo",
        "! fsync foo",
        "workload foo bar",
        "expect \"quoted\" text",
    ]), @"
    foo.wl:1:11: unexpected 'bar' after a complete 'fsync'
    foo.wl:1:6: unexpected 'foo' after a complete 'sync'
    foo.wl:1:7: unexpected 'creat' after a complete 'setup'
    foo.wl:1:3: unexpected 'fsync' after a complete '!'
    foo.wl:1:14: unexpected 'bar' after a complete 'workload'
    foo.wl:1:17: unexpected 'text' after a complete 'quoted text'
    ");
}

#[test]
fn quotes_and_escapes_must_be_whole() {
    insta::assert_snapshot!(errors(&[
        "creat \"foo",
        "creat \"foo\\",
        "creat foo\"bar",
        "creat \"foo\"bar",
        "creat \"foo\\x\"",
    ]), @r#"
    foo.wl:1:7: a quote that is not closed on its line
    foo.wl:1:7: a quote that is not closed on its line
    foo.wl:1:10: a quote inside a word (quote the whole word)
    foo.wl:1:12: expected a blank, ';' or the end of the line after a closing quote
    foo.wl:1:11: unknown escape (known are \" \\ \n \r \t)
    "#);
}

#[test]
fn repeat_is_bounded_and_checked() {
    insta::assert_snapshot!(errors(&[
        "repeat i 0..100000 creat foo_{i}",
        "repeat i 0..18446744073709551615 creat foo_{i}",
        "repeat i 0..99999999999999999999 creat foo_{i}",
        "sync; repeat i 1..100000 creat foo_{i}",
        "repeat i 3..1 creat foo_{i}",
        "repeat i 3 creat foo_{i}",
        "repeat {i} 0..3 creat foo",
        "repeat i 0..3",
        "repeat i 0..3 repeat j 0..3 sync",
        "repeat i 0..3 !",
        "repeat i 0..3 write foo {j}K 1K",
        "repeat i 0..3 open foo as @h",
    ]), @"
    foo.wl:1:10: the workload has more than 100000 operations
    foo.wl:1:10: the workload has more than 100000 operations
    foo.wl:1:10: expected a range of numbers (such as 0..99), found '0..99999999999999999999'
    foo.wl:1:16: the workload has more than 100000 operations
    foo.wl:1:10: the range ends before it starts
    foo.wl:1:10: expected a range of numbers (such as 0..99), found '3'
    foo.wl:1:8: expected the name of a variable (such as i), found '{i}'
    foo.wl:1:14: expected the operation to repeat, found the end of the operation
    foo.wl:1:15: expected the operation to repeat, found 'repeat'
    foo.wl:1:15: expected the operation to repeat, found '!'
    foo.wl:1:25: expected an offset in bytes (such as 4096 or 4K), found '{j}K'
    foo.wl:1:27: handle '@h' is already open
    ");
    let most = workloads::parse(
        &format!("repeat i 1..{OPERATIONS_MAX} append foo {{i}}*2"),
        "foo.wl",
    )
    .unwrap();
    assert_eq!(most[0].run.len(), OPERATIONS_MAX);
    assert_eq!(most[0].run[9].to_string(), "append foo 20");
}

#[test]
fn columns_count_characters() {
    insta::assert_snapshot!(error("creat ääää; fsnc foo"), @"foo.wl:1:13: unknown operation 'fsnc'; did you mean 'fsync'?");
}

#[test]
fn control_characters_and_long_words_are_not_repeated_in_full() {
    insta::assert_snapshot!(error("\u{1b}[31m foo"), @"foo.wl:1:1: unknown operation '�[31m'");
    insta::assert_snapshot!(error(&"x".repeat(1000)), @"foo.wl:1:1: unknown operation 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…'");
}

#[test]
fn bytes_that_are_no_text_are_an_error_of_their_line() {
    let mut reader = Reader::new(&b"workload one; sync\nworkload two; creat f\xff\n"[..], "-");
    let error = reader.by_ref().find_map(Result::err).unwrap();
    insta::assert_snapshot!(error, @"-:2:22: the text is not UTF-8");
    assert!(reader.next().is_none());
}
