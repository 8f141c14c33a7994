//! What the recorder of programs follows, with programs of which the answers are known: each
//! mistake is found, and its right twin is clean.

use std::path::{Path, PathBuf};
use std::process::Command;

use end_to_end::{findings_and_summary, program, require_root, said};
use serde_json::Value;
use tempfile::TempDir;

/// What is followed does not depend on the model of the file system: one is enough, but for what is
/// ignored here.
const MODELS: [&str; 5] = ["posix", "ext4-ordered", "ext4-writeback", "xfs", "btrfs"];

/// Syncs the file system of the data, and no other one: sync(2) waits for all that the machine writes.
const SYNC: &str = "ctypes.CDLL(None).syncfs(os.open('.', os.O_RDONLY))";

/// What a sweep came to.
struct Swept {
    status: Option<i32>,
    findings: usize,
    first: Value,
    summary: Value,
    said: String,
}

impl Swept {
    fn assert_clean(&self, of: &str) {
        assert_eq!(
            self.status,
            Some(0),
            "{of}: {}\n{:#}",
            self.said,
            self.summary
        );
        assert!(
            self.summary["checked"].as_u64() > Some(1),
            "{of}: {:#}",
            self.summary
        );
    }

    fn assert_found(&self, of: &str) {
        assert_eq!(
            self.status,
            Some(1),
            "{of}: {}\n{:#}",
            self.said,
            self.summary
        );
        assert!(self.findings > 0, "{of}");
    }
}

/// Sweeps a program.
fn sweep(options: &[&str], check: &str, words: &[&str]) -> Swept {
    let check = ["--check", check];
    sweep_by(&[&check, options].concat(), words)
}

/// The same with a check that the options name.
fn sweep_by(options: &[&str], words: &[&str]) -> Swept {
    let mut command = Command::new(program("crashpoint"));
    command
        .args(["app", "--format", "json"])
        .args(options)
        .arg("--")
        .args(words);
    let output = command.output().expect("it runs");
    let (findings, summary) = findings_and_summary(&output);
    Swept {
        status: output.status.code(),
        findings: findings.len(),
        first: findings.first().cloned().unwrap_or_default(),
        summary,
        said: said(&output),
    }
}

/// Sweeps a script of Python that works in the directory of data.
fn sweep_script(options: &[&str], check: &str, script: &str) -> Swept {
    let script = format!("import os, sys, ctypes\nos.chdir(sys.argv[1])\n{script}");
    sweep(
        options,
        check,
        &["/usr/bin/python3", "-c", &script, "{dir}"],
    )
}

/// A program of C, from the fixtures.
fn compiled(folder: &TempDir, name: &str) -> String {
    let fixtures = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/followed"));
    let (source, built): (PathBuf, _) = (
        fixtures.join(name).with_extension("c"),
        folder.path().join(name),
    );
    let mut compiler = Command::new("cc");
    compiler
        .args(["-Wall", "-Werror", "-o"])
        .arg(&built)
        .arg(source);
    assert!(compiler.status().expect("cc runs").success(), "{name}");
    built.to_str().expect("text").to_owned()
}

/// A file that was said to be written is there.
const WRITTEN: &str = "if test -s {acks} && ! test -s {dir}/file; then echo broken it is lost; \
                       else echo ok; fi";

#[test]
#[ignore = "takes minutes: make test-long"]
fn what_is_followed_is_judged_by_each_model() {
    of_another_file_system(&MODELS);
    synced_before_it_gets_its_name(&MODELS);
    an_extended_attribute(&MODELS);
    changed_through_a_mapping(&MODELS);
}

#[test]
fn a_sync_of_another_file_system_keeps_nothing() {
    of_another_file_system(&["ext4-ordered"]);
}

fn of_another_file_system(models: &[&str]) {
    let script = |path: &str| {
        format!(
            "open('file', 'w').write('whole')\n\
             ctypes.CDLL(None).syncfs(os.open({path:?}, os.O_RDONLY))\nprint('written')"
        )
    };
    for &model in models {
        let options = ["--model", model];
        sweep_script(&options, WRITTEN, &script("/dev/shm")).assert_found(model);
        sweep_script(&options, WRITTEN, &script(".")).assert_clean(model);
    }
}

#[test]
fn a_file_that_is_synced_before_it_gets_its_name_is_whole() {
    synced_before_it_gets_its_name(&["btrfs"]);
}

fn synced_before_it_gets_its_name(models: &[&str]) {
    let script = |sync: &str| {
        format!(
            "file = os.open('.', os.O_RDWR | os.O_TMPFILE)\n\
             os.write(file, b'whole')\n{sync}\n\
             way = b'/proc/self/fd/%d' % file\n\
             assert ctypes.CDLL(None).linkat(-100, way, -100, b'file', 0x400) == 0\n\
             os.fsync(os.open('.', os.O_RDONLY))\nprint('written')"
        )
    };
    for &model in models {
        let options = ["--model", model];
        let swept = sweep_script(&options, WRITTEN, &script("os.fsync(file)"));
        swept.assert_clean(model);
    }
    sweep_script(&["--model", "posix"], WRITTEN, &script("")).assert_found("posix");
}

#[test]
fn an_extended_attribute_is_there_once_its_file_was_synced() {
    an_extended_attribute(&["ext4-ordered"]);
}

fn an_extended_attribute(models: &[&str]) {
    let check = "if test -s {acks} && ! getfattr -n user.sum {dir}/file 2>&1 | grep -q whole; then \
                 echo broken its attribute is lost; else echo ok; fi";
    let script = |sync: &str| {
        format!(
            "file = os.open('file', os.O_RDWR | os.O_CREAT)\n\
             os.fsync(file); os.fsync(os.open('.', os.O_RDONLY))\n\
             os.setxattr(file, 'user.sum', b'whole')\n{sync}\nprint('written')"
        )
    };
    for &model in models {
        let options = ["--model", model];
        sweep_script(&options, check, &script("os.fsync(file)")).assert_clean(model);
        sweep_script(&options, check, &script("")).assert_found(model);
    }
}

#[test]
fn a_program_that_has_kernel_aio_if_it_can_does_without_and_is_judged() {
    let folder = tempfile::tempdir().expect("a directory");
    let aio = compiled(&folder, "aio");
    sweep(
        &["--model", "ext4-ordered"],
        WRITTEN,
        &[&aio, "{dir}/file", "sync"],
    )
    .assert_clean("aio");
    sweep(&["--model", "ext4-ordered"], WRITTEN, &[&aio, "{dir}/file"]).assert_found("aio");
    let refused = sweep(&[], WRITTEN, &[&aio, "{dir}/file", "must"]);
    assert_eq!(refused.status, Some(2), "{}", refused.said);
    assert!(refused.said.contains("--level block"), "{}", refused.said);
}

#[test]
fn where_only_the_disk_is_looked_at_no_call_is_refused() {
    require_root();
    let folder = tempfile::tempdir().expect("a directory");
    let options = ["--disk", "ext4", "--level", "block", "--schedules", "1"];
    for (name, more) in [("ring", &[][..]), ("aio", &["must"])] {
        let built = compiled(&folder, name);
        let words = [&[built.as_str(), "{dir}/file"], more].concat();
        sweep(&options, WRITTEN, &words).assert_found(name);
        let words = [&[built.as_str(), "{dir}/file", "sync"], more].concat();
        sweep(&options, WRITTEN, &words).assert_clean(name);
    }
}

#[test]
fn a_hole_of_a_tebibyte_costs_nothing() {
    let check = "if test -s {acks} && test $(stat -c %s {dir}/file) != 1099511627784; then \
                 echo broken it is lost; else echo ok; fi";
    let script = |sync: &str| {
        format!(
            "file = os.open('file', os.O_RDWR | os.O_CREAT)\n\
             os.pwrite(file, b'far away', 1 << 40)\n{sync}\n\
             os.fsync(os.open('.', os.O_RDONLY))\nprint('written')"
        )
    };
    sweep_script(&[], check, &script("os.fsync(file)")).assert_clean("synced");
    sweep_script(&[], check, &script("")).assert_found("not synced");
}

#[test]
fn a_record_that_is_changed_through_a_mapping_before_its_log_is_synced_is_found() {
    changed_through_a_mapping(&["ext4-ordered"]);
}

fn changed_through_a_mapping(models: &[&str]) {
    let undo = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/followed/undo.py");
    let check = "if grep -q ready {acks} && ! grep -q done {acks} && ! grep -q old {dir}/data && \
                 ! grep -q old {dir}/log; then echo broken nobody knows what it was; \
                 else echo ok; fi";
    for &model in models {
        let run = |how: &str, order: &str| {
            let options = ["--model", model];
            sweep(
                &options,
                check,
                &["/usr/bin/python3", undo, "{dir}", how, order],
            )
        };
        for how in ["store", "pwrite"] {
            run(how, "data-first").assert_found(model);
            run(how, "log-first").assert_clean(model);
        }
    }
}

/// Of a large file that is mapped it is looked at the end of a time only what was stored to it.
#[test]
fn what_was_stored_to_a_large_file_is_counted_as_not_measured() {
    let script = |mib: u64| {
        format!(
            "import mmap\nfile = os.open('file', os.O_RDWR | os.O_CREAT)\n\
             os.write(file, b'x' * ({mib} << 20)); os.fsync(file); os.fsync(os.open('.', os.O_RDONLY))\n\
             mapped = mmap.mmap(file, 0)\nmapped[:3] = b'new'\nmapped.flush()\nprint('written')"
        )
    };
    let not_recorded = |swept: &Swept| swept.summary["not_recorded"].to_string();
    let small = sweep_script(&["--model", "xfs"], "echo ok", &script(1));
    small.assert_clean("small");
    assert!(
        !not_recorded(&small).contains("a mapped file of more than 16 MiB"),
        "{:#}",
        small.summary
    );
    let large = sweep_script(&["--model", "xfs"], "echo ok", &script(20));
    assert_eq!(large.status, Some(3), "{}", large.said);
    assert!(
        not_recorded(&large).contains("a mapped file of more than 16 MiB"),
        "{:#}",
        large.summary
    );
}

#[test]
fn a_program_that_flushes_nothing_acknowledges_line_by_line() {
    let folder = tempfile::tempdir().expect("a directory");
    let save = compiled(&folder, "save");
    let check = "if test $(grep -c record {dir}/file) -lt $(cat {acks} | wc -l); then \
                 echo broken a record is lost; else echo ok; fi";
    let (file, perl) = (
        "{dir}/file",
        "open F, '>>', shift; for (1..3) { syswrite F, \"record\\n\"; print \"$_\\n\" }",
    );
    let python = "import os, sys\nfile = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)\n\
                  for number in range(3): os.write(file, b'record\\n'); print(number)";
    for words in [
        &[save.as_str(), file][..],
        &["/usr/bin/perl", "-e", perl, file],
        &["/usr/bin/python3", "-c", python, file],
    ] {
        let swept = sweep(&["--model", "ext4-ordered"], check, words);
        swept.assert_found(words[0]);
        assert!(!swept.said.contains("warning"), "{}", swept.said);
    }
    sweep(&["--model", "ext4-ordered"], check, &[&save, file, "sync"]).assert_clean("save");
}

#[test]
fn lines_that_come_only_at_the_end_are_warned_of() {
    let script = "file = os.open('file', os.O_RDWR | os.O_CREAT)\n\
                  for number in range(3): os.write(file, b'record'); os.fsync(file)\n\
                  os.write(1, b'0\\n1\\n2\\n')";
    let swept = sweep_script(&[], "echo ok", script);
    assert!(
        swept
            .said
            .contains("all its 3 lines after all changes of its files"),
        "{}",
        swept.said
    );
    let one = script.replace("0\\n1\\n2\\n", "done\\n");
    let swept = sweep_script(&[], "echo ok", &one);
    assert!(!swept.said.contains("warning"), "{}", swept.said);
}

#[test]
fn a_run_that_promises_or_changes_nothing_passes_only_if_that_is_wanted() {
    let silent = "open('file', 'w').write('x')";
    let idle = "print('nothing')";
    for (script, why) in [(silent, "printed no line"), (idle, "changed nothing")] {
        let swept = sweep_script(&[], "echo ok", script);
        assert_eq!(swept.status, Some(3), "{}", swept.said);
        let said = swept.summary["untested"].as_str().unwrap_or_default();
        assert!(said.contains(why), "{:#}", swept.summary);
        let swept = sweep_script(&["--allow-no-acks"], "echo ok", script);
        assert_eq!(swept.status, Some(0), "{}", swept.said);
    }
    // What is found is found all the same.
    let check = "if test -s {dir}/file; then echo ok; else echo broken; fi";
    sweep_script(&[], check, silent).assert_found("silent");
}

#[test]
fn pipes_sockets_and_modes_come_back_as_they_were() {
    let script = "import socket\nos.umask(0)\nos.mkfifo('pipe', 0o640)\n\
                  listener = socket.socket(socket.AF_UNIX); listener.bind('socket'); \
                  os.chmod('socket', 0o700)\n\
                  os.mkdir('directory', 0o1711)\nos.close(os.open('file', os.O_CREAT, 0o4604))\n\
                  os.chmod('.', 0o2775)";
    let script = format!("{script}\n{SYNC}\nprint('made')");
    let check = "cd {dir}; test -s {acks} || { echo ok; exit; }\n\
                 test -p pipe && test -S socket && \
                 test \"$(stat -c %a pipe socket directory file . | tr '\\n' ' ')\" = \
                 '640 700 1711 4604 2775 ' && echo ok || echo broken $(stat -c '%F %a' *)";
    sweep_script(&[], check, &script).assert_clean("made");
}

/// LMDB trusts a page that was not flushed if the one who wrote it ran in the same boot. Others trust
/// a lock whose owner they see, here the sweep itself, or a time since the start of the machine.
#[test]
fn a_check_sees_that_the_machine_was_started_anew() {
    require_root();
    let script = "import time\n\
                  boot = open('/proc/sys/kernel/random/boot_id').read()\n\
                  open('boot', 'w').write(boot); open('lock', 'w').write(str(os.getppid()))\n\
                  uptime = time.clock_gettime(time.CLOCK_BOOTTIME)\n\
                  open('uptime', 'w').write(str(int(uptime)))\n\
                  for name in ('boot', 'lock', 'uptime', '.'): os.fsync(os.open(name, os.O_RDONLY))\n\
                  print('written')";
    let trusts = [
        "test \"$(cat {dir}/boot)\" = \"$(cat /proc/sys/kernel/random/boot_id)\"",
        "kill -0 $(cat {dir}/lock)",
        "test -d /proc/$(cat {dir}/lock)",
        "test $(cut -d. -f1 /proc/uptime) -ge $(cat {dir}/uptime)",
    ];
    for trusts in trusts {
        let check = format!(
            "test -s {{acks}} || {{ echo ok; exit; }}\n\
             if {trusts}; then echo broken it trusts itself; else echo ok; fi"
        );
        sweep_script(&[], &check, script).assert_clean(trusts);
    }
}

/// What is mounted for a state is seen by a check that was started before, and so is where it was
/// started.
#[test]
fn a_check_that_keeps_running_in_another_boot_sees_each_state() {
    require_root();
    let script = format!(
        "import os, sys, ctypes\nos.chdir(sys.argv[1])\nopen('file', 'w').write('x')\n{SYNC}\nprint('written')"
    );
    let check = "test -f Cargo.toml || exit 3; while read dir acks; do \
                 if test -s $acks && ! test -s $dir/file; then echo broken it is lost; \
                 elif test $$ -ge 300 && test -d /proc/$$; then echo ok; fi; echo end; done";
    let options = ["--disk", "ext4", "--schedules", "quiet", "--level", "block"];
    let options = [&options[..], &["--check-server", check]].concat();
    sweep_by(&options, &["/usr/bin/python3", "-c", &script, "{dir}"]).assert_clean("kept");
}

/// Whose a file is, is not recorded: what lacks that accuses nobody, whatever the check says of it.
#[test]
fn a_state_that_lacks_what_was_not_recorded_accuses_nobody() {
    require_root();
    let script = "file = os.open('file', os.O_CREAT | os.O_RDWR)\n\
                  os.fchown(file, 1, 1); os.fsync(file); os.fsync(os.open('.', os.O_RDONLY))\n\
                  print('written')";
    let check = "test -s {acks} || { echo ok; exit; }\n\
                 if test \"$(stat -c %u {dir}/file)\" = 1; then echo ok; else echo broken whose; fi";
    let swept = sweep_script(&[], check, script);
    assert_eq!(swept.status, Some(3), "{}", swept.said);
    assert_eq!(swept.findings, 0, "{}", swept.said);
    // The check has another reason to complain here, and none at all without a crash.
    let script = "file = os.open('file', os.O_CREAT | os.O_RDWR)\n\
                  os.fchown(file, 1, 1); print('written')";
    let check = "if test -s {acks} && ! test -e {dir}/file; then echo broken it is lost; \
                 else echo ok; fi";
    sweep_script(&[], check, script).assert_found("not synced");
}

/// The disk has what was not recorded. The check is tried on what it had in the end, when its file
/// system was unmounted.
#[test]
fn a_check_is_tried_on_what_the_disk_had_in_the_end_where_not_all_was_recorded() {
    require_root();
    let script = "import os, sys; os.chdir(sys.argv[1]); file = os.open('file', os.O_CREAT | os.O_RDWR)\n\
                  os.fchown(file, 1, 1); os.write(file, b'new'); print('written')";
    let words = ["/usr/bin/python3", "-c", script, "{dir}"];
    let level = ["--disk", "ext4", "--schedules", "quiet", "--level", "block"];
    let check = "if ! test -s {acks} || test \"$(stat -c %u {dir}/file)$(cat {dir}/file)\" = 1new; \
                 then echo ok; else echo broken it is lost; fi";
    sweep(&level, check, &words).assert_found("not synced");
    // This one complains of what no crash has touched.
    let check = "if test -s {acks}; then echo broken always; else echo ok; fi";
    let swept = sweep(&level, check, &words);
    assert_eq!(swept.status, Some(2), "{}", swept.said);
    assert!(swept.said.contains("without a crash"), "{}", swept.said);
}

#[test]
fn what_looks_like_a_sync_and_promises_nothing_is_named_where_somebody_relied_on_it() {
    let weak = |name: &str, script: &str| {
        let script = format!("import os, sys, mmap, ctypes\nos.chdir(sys.argv[1])\n{script}");
        let words = ["/usr/bin/python3", "-c", &script, "{dir}"];
        let check = "if test -s {acks} && ! grep -q whole {dir}/file; then echo broken it is lost; \
                     else echo ok; fi";
        let swept = sweep(&["--model", "ext4-ordered"], check, &words);
        swept.assert_found(name);
        swept.first["promised_nothing"].clone()
    };
    let write = "file = os.open('file', os.O_RDWR | os.O_CREAT); os.write(file, b'whole')\n";
    let range = "ctypes.CDLL(None).sync_file_range(file, ctypes.c_long(0), ctypes.c_long(0), 7)\n";
    let found = weak("range", &format!("{write}{range}{range}print('written')"));
    assert_eq!(found[0]["call"], "sync_file_range", "{found:#}");
    assert_eq!(found[0]["path"], "file", "{found:#}");
    assert_eq!(found[0]["times"], 2, "{found:#}");
    // Nobody relied on what came before, or on what was called of another file.
    let other = "other = os.open('other', os.O_RDWR | os.O_CREAT); os.write(other, b'whole')\n";
    let of_other = range.replace("file,", "other,");
    let found = weak(
        "other",
        &format!("{other}{of_other}{write}print('written')"),
    );
    assert!(found.is_null(), "{found:#}");
    let mapped = "file = os.open('file', os.O_RDWR | os.O_CREAT); os.write(file, bytes(4096))\n\
                  os.fsync(file); os.fsync(os.open('.', os.O_RDONLY))\n\
                  map = mmap.mmap(file, 4096)\nmap[0:5] = b'whole'\n\
                  address = ctypes.addressof(ctypes.c_char.from_buffer(map))\n\
                  ctypes.CDLL(None).msync(ctypes.c_void_p(address), 4096, 1)\nprint('written')";
    let found = weak("mapping", mapped);
    assert_eq!(found[0]["call"], "msync(MS_ASYNC)", "{found:#}");
}
