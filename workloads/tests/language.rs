//! The language as `docs/workloads.md` describes it.

use workloads::{Op, Step, Workload};

fn parse(text: &str) -> Workload {
    workloads::parse(text, "language.wl")
        .unwrap_or_else(|error| panic!("{error}"))
        .remove(0)
}

/// The indented block at the head of the documentation.
fn example() -> String {
    let docs = include_str!("../../docs/workloads.md");
    let lines = docs.lines().skip_while(|line| !line.starts_with("    "));
    lines
        .map_while(|line| line.strip_prefix("    "))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_documented_example_is_a_workload() {
    insta::assert_snapshot!(parse(&example()).to_text(), @"
    workload generic_321
    source B3, reproduced bug 12
    expect foo only in A
    setup
    creat foo
    mkdir A
    fsync foo
    sync
    run
    rename foo A/foo
    fsync A; !
    fsync A/foo; !
    ");
    insta::assert_snapshot!(parse(&example()).to_line(), @r#"workload generic_321; source "B3, reproduced bug 12"; expect "foo only in A"; setup; creat foo; mkdir A; fsync foo; sync; run; rename foo A/foo; fsync A; !; fsync A/foo; !"#);
}

#[test]
fn every_operation_is_documented() {
    let docs = include_str!("../../docs/workloads.md");
    for step in parse(EVERY_OPERATION).run {
        let line = step.to_string();
        let name = format!("`{}`", line.split(' ').next().unwrap());
        assert!(docs.contains(&name), "{name} is not in docs/workloads.md");
    }
}

#[test]
fn every_operation_is_printed_as_it_is_written() {
    let printed: Vec<String> = parse(EVERY_OPERATION)
        .run
        .iter()
        .map(Step::to_string)
        .collect();
    let written: Vec<&str> = EVERY_OPERATION.lines().collect();
    assert_eq!(printed, written);
}

const EVERY_OPERATION: &str = "\
creat foo
creat foo 0600
mkdir A
mkdir A 0700
mkfifo A/fifo
mknod A/null
mknod A/sda b 8 0
symlink ../foo A/link
link foo A/bar
unlink A/bar
rmdir A
remove foo
rename foo bar
rename foo bar noreplace
rename foo bar exchange
rename foo bar whiteout
open . as @root
tmpfile A as @tmp
tmpfile A as @tmp2 0600
link @tmp A/named
close @tmp
close foo
write foo 0 4K
write @root 4095 1 sync
write foo 1M 3000 dsync
dwrite foo 0 8K
dwrite foo 0 8K sync
append foo 4097
mmapwrite foo 0 4K
truncate foo 2500
falloc foo alloc 0 4K
falloc foo keep_size 0 4K
falloc foo zero_range 0 4K
falloc foo zero_range|keep_size 0 4K
falloc foo punch_hole|keep_size 0 4K
falloc foo collapse_range 0 4K
falloc foo insert_range 0 4K
falloc foo unshare_range 0 4K
setxattr foo user.name \"hello world\"
setxattr foo user.empty \"\"
removexattr foo user.name
chmod foo 4755
chown foo 1000 4294967295
reflink foo bar
reflink foo 0 4K bar 8K
drop_caches 3
fsync .
fsync @root
fdatasync foo
msync foo 0 4K
sync_file_range foo 0 4K
syncfs
sync
!
creat \"with ; and # and \\\"quotes\\\"\"
creat \"@not_a_handle\"";

#[test]
fn defaults_are_those_of_the_documentation() {
    let run = parse("creat foo; creat foo 0644; mkdir A; mkdir A 0755; mknod n; mknod n c 0 0").run;
    for pair in run.chunks(2) {
        assert_eq!(pair[0], pair[1]);
    }
}

#[test]
fn sizes_are_bytes_in_units_and_products() {
    let run = parse("truncate foo 4096; truncate foo 4K; truncate foo 2*2K; truncate foo 2K*2").run;
    assert!(run.iter().all(|step| *step == run[0]));
    assert_eq!(run[0].to_string(), "truncate foo 4K");
}

#[test]
fn repeat_replaces_its_variable_everywhere_and_includes_both_ends() {
    let run = parse("repeat i 1..3 link \"a {i}\" b_{i}_{i}_{j}").run;
    let lines: Vec<String> = run.iter().map(Step::to_string).collect();
    assert_eq!(
        lines,
        [
            "link \"a 1\" b_1_1_{j}",
            "link \"a 2\" b_2_2_{j}",
            "link \"a 3\" b_3_3_{j}"
        ]
    );
}

#[test]
fn a_quoted_word_is_a_name_and_nothing_else() {
    let Step::Op(Op::Rename { dest, .. }) =
        parse("rename \"foo\" \"exchange\" exchange").run.remove(0)
    else {
        panic!("not a rename");
    };
    assert_eq!(dest, "exchange");
    assert!(workloads::parse("rename foo bar \"exchange\"", "foo.wl").is_err());
}

#[test]
fn both_languages_are_read_where_either_may_come() {
    let jlang = "# define\ntest\nfoo\n# setup\n# run\nopen foo O_RDWR|O_CREAT 0644\nfsync foo\ncheckpoint 1\n";
    let ours = "workload j-lang1; creat foo; fsync foo; !";
    let read = |text| workloads::parse_any(text, "j-lang1").unwrap();
    assert_eq!(read(jlang), read(ours));
}
