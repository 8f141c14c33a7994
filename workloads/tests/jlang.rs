//! CrashMonkey's language: files of ours in it, and what they are read as.

use std::fs;
use std::path::PathBuf;

use workloads::jlang::{self, to_jlang};
use workloads::{Format, Workload};

fn fixtures() -> Vec<(String, String)> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/jlang");
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let name = |file: &PathBuf| file.file_name().unwrap().to_string_lossy().into_owned();
    files
        .iter()
        .map(|file| (name(file), fs::read_to_string(file).unwrap()))
        .collect()
}

fn fixture(name: &str) -> Workload {
    let text = fixtures()
        .into_iter()
        .find(|(file, _)| file == name)
        .unwrap()
        .1;
    jlang::parse(&text, name).unwrap()
}

fn ours(text: &str) -> Workload {
    workloads::parse(text, "ours.wl").unwrap().remove(0)
}

#[test]
fn jlang_reads_back_the_same_after_being_printed() {
    for (name, text) in fixtures() {
        let workload = jlang::parse(&text, &name).unwrap_or_else(|error| panic!("{error}"));
        let printed = to_jlang(&workload).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            jlang::parse(&printed, &name).unwrap(),
            workload,
            "{printed}"
        );
        assert_eq!(ours(&workload.to_line()), workload);
    }
}

#[test]
fn the_two_formats_are_told_apart() {
    for (name, text) in fixtures() {
        assert_eq!(Format::of(&text), Format::Jlang, "{name}");
        assert_eq!(
            Format::of(&fixture(&name).to_text()),
            Format::Workload,
            "{name}"
        );
    }
    assert_eq!(
        Format::of("# define what must hold\n# run\ncreat foo"),
        Format::Workload
    );
    assert_eq!(Format::of(""), Format::Workload);
}

#[test]
fn paths_get_their_slashes_back_and_test_is_the_root() {
    insta::assert_snapshot!(fixture("special_file_renamed").to_text(), @"
    workload special_file_renamed
    mkdir A 0777
    mkdir A/C 0777
    mknod A/C/foo b 0 0
    rename A/C/foo A/C/bar
    link A/C/bar A/C/foo
    symlink A/C/bar B
    fsync A/C; !
    close A/C
    remove A/C/foo
    rmdir A
    ");
}

#[test]
fn opening_makes_a_file_only_where_there_is_none() {
    insta::assert_snapshot!(fixture("name_used_again").to_text(), @"
    workload name_used_again
    creat foo 0777
    write foo 0 4K
    close foo
    rename foo bar
    creat foo 0777
    truncate foo 2500
    fsync foo; !
    close foo
    unlink foo
    sync; !
    ");
}

#[test]
fn opening_can_empty_a_file() {
    let text = "# define\ntest\nfoo\n# setup\n# run\nopen foo O_RDWR|O_CREAT|O_TRUNC 0644\n\
                write foo 0 4096\nopen foo O_RDWR|O_CREAT|O_TRUNC 0644\nfsync foo\ncheckpoint 1\n";
    let workload = jlang::parse(text, "emptied").expect("J-lang");
    insta::assert_snapshot!(workload.to_text(), @"
    workload emptied
    creat foo
    write foo 0 4K
    truncate foo 0
    fsync foo; !
    ");
}

#[test]
fn mappings_are_synced_and_direct_writes_are_synchronous() {
    insta::assert_snapshot!(fixture("mapping_and_direct_write").to_text(), @"
    workload mapping_and_direct_write
    creat foo 0777
    write foo 0 32K
    mmapwrite foo 4K 8K
    msync foo 4K 8K; !
    creat bar 0777
    dwrite bar 0 8K sync
    fsync .; !
    close foo
    close .
    ");
}

#[test]
fn the_setup_section_is_the_setup() {
    insta::assert_snapshot!(fixture("attribute_comes_back").to_text(), @"
    workload attribute_comes_back
    setup
    mkdir A 0777
    creat A/foo 0777
    setxattr A/foo user.xattr1 val1
    run
    removexattr A/foo user.xattr1
    fsync A/foo; !
    close A/foo
    ");
}

#[test]
fn descriptors_are_opened_and_closed_where_crashmonkey_needs_it() {
    let workload =
        ours("mkdir A; creat A/foo; fsync A/foo; fsync A; rename A B; write B/foo 0 4K; sync");
    insta::assert_snapshot!(to_jlang(&workload).unwrap(), @"
    # define
    test
    A
    A/foo
    B
    B/foo

    # declare
    local_checkpoint

    # setup

    # run
    mkdir A 0755
    open Afoo O_RDWR|O_CREAT 0644
    fsync Afoo
    checkpoint 0
    opendir A 0777
    fsync A
    checkpoint 0
    close A
    close Afoo
    rename A B
    open Bfoo O_RDWR|O_CREAT 0777
    write Bfoo 0 4096
    sync
    checkpoint 1
    close Bfoo
    ");
}

#[test]
fn what_jlang_cannot_say_is_refused_by_name() {
    let refused: Vec<String> = [
        "creat foo; open foo as @h; fsync @h",
        "creat foo; append foo 4K; fsync foo",
        "creat foo; mmapwrite foo 0 4K; fsync foo",
        "creat foo; mmapwrite foo 0 4K; msync foo 0 8K",
        "creat foo; dwrite foo 0 4K; fsync foo",
        "creat foo; write foo 0 4K dsync",
        "creat foo; setxattr foo user.other val1; fsync foo",
        "rename foo bar exchange; sync",
        "mkdir test; sync",
        "creat foo.txt; sync",
        "mkdir A; creat A/foo; creat Afoo; sync",
        "syncfs",
    ]
    .map(|text| to_jlang(&ours(text)).unwrap_err().to_string())
    .into();
    insta::assert_snapshot!(refused.join("\n"), @"
    'open foo as @h' cannot be expressed in J-lang: it has no such operation
    'append foo 4K' cannot be expressed in J-lang: it has no such operation
    'mmapwrite foo 0 4K' cannot be expressed in J-lang: its mmapwrite is one with an msync of the same range
    'mmapwrite foo 0 4K' cannot be expressed in J-lang: its mmapwrite is one with an msync of the same range
    'dwrite foo 0 4K' cannot be expressed in J-lang: its dwrite is one with O_SYNC
    'write foo 0 4K dsync' cannot be expressed in J-lang: its write has no O_SYNC or O_DSYNC
    'setxattr foo user.other val1' cannot be expressed in J-lang: it sets user.xattr1 to val1 and nothing else
    'rename foo bar exchange' cannot be expressed in J-lang: its rename has no flags
    'mkdir test' cannot be expressed in J-lang: its root is called 'test'
    'creat foo.txt' cannot be expressed in J-lang: its names are of letters, digits and '_'
    'creat Afoo' cannot be expressed in J-lang: two paths would have the same name without their slashes
    'syncfs' cannot be expressed in J-lang: it has no such operation
    ");
}

#[test]
fn errors_in_jlang_name_their_place() {
    let head = "# define\ntest\nfoo\nA/foo\n# setup\n# run\n";
    let errors: Vec<String> = [
        "fsync bar",
        "fsnc foo",
        "open foo O_RDWR|O_CREAT rwx",
        "open foo O_RDWR|O_SYNC 0777",
        "mknod foo TEST_FILE_PERMS|S_IFIFO 0",
        "write foo 0 much",
        "falloc foo FALLOC_FL_MAGIC 0 4096",
        "fsync foo foo",
        "checkpoint 2",
        "# setup",
        "# define\nAfoo",
        "# define\n../foo",
    ]
    .map(|line| {
        jlang::parse(&format!("{head}{line}"), "j-lang1")
            .unwrap_err()
            .to_string()
    })
    .into();
    insta::assert_snapshot!(errors.join("\n"), @"
    j-lang1:7:7: expected a path of the '# define' section (written without slashes), found 'bar'
    j-lang1:7:1: unknown operation 'fsnc'; did you mean 'fsync'?
    j-lang1:7:25: expected an octal mode (such as 0644), found 'rwx'
    j-lang1:7:10: expected flags of open(2) (O_RDWR, O_RDONLY, O_WRONLY, O_CREAT, O_TRUNC), found 'O_RDWR|O_SYNC'
    j-lang1:7:11: expected a mode of mknod(2) with S_IFCHR or S_IFBLK (such as TEST_FILE_PERMS|S_IFCHR), found 'TEST_FILE_PERMS|S_IFIFO'
    j-lang1:7:13: expected a length in bytes (such as 4096 or 4K), found 'much'
    j-lang1:7:12: expected 0 or flags of fallocate (such as FALLOC_FL_KEEP_SIZE), found 'FALLOC_FL_MAGIC'
    j-lang1:7:11: unexpected 'foo' after a complete 'fsync'
    j-lang1:7:12: 2 is too large for what a checkpoint returns (at most 1)
    j-lang1:7:1: 'setup' is given twice in this workload
    j-lang1:8:1: another path has the same name without its slashes
    j-lang1:8:1: path '../foo' must not contain '..'
    ");
    let early = jlang::parse("fsync foo", "j-lang1").unwrap_err();
    insta::assert_snapshot!(early, @"j-lang1:1:1: expected a section ('# define', '# declare', '# setup' or '# run'), found 'fsync'");
    let crash_in_setup = jlang::parse("# define\n# setup\ncheckpoint 1", "j-lang1").unwrap_err();
    insta::assert_snapshot!(crash_in_setup, @"j-lang1:3:1: '!' is a crash point: none can be in 'setup', which is durable before recording starts");
}
