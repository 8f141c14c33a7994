# Log replay test of xfstests.
# Consequence: a hard link is missing (as in new_7).
# Six pairs of names, and after each link one fsync: of the file, of a directory, or of a
# sibling that is created for it. Only an fsync of the file itself is held to both names.

# A second name bar for foo.
workload xfstests_generic_520.foo_bar.fsync_root
source kdave/xfstests tests/generic/520
expect mountable
creat foo
link foo bar
fsync .; !

workload xfstests_generic_520.foo_bar.fsync_foo
source kdave/xfstests tests/generic/520
expect foo and bar exist, with 2 links
creat foo
link foo bar
fsync foo; !

workload xfstests_generic_520.foo_bar.fsync_bar
source kdave/xfstests tests/generic/520
expect foo and bar exist, with 2 links
creat foo
link foo bar
fsync bar; !

workload xfstests_generic_520.foo_bar.sync
source kdave/xfstests tests/generic/520
expect foo and bar exist, with 2 links
creat foo
link foo bar
sync; !

# A second name A/bar for foo.
workload xfstests_generic_520.foo_Abar.fsync_root
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat foo
link foo A/bar
fsync .; !

workload xfstests_generic_520.foo_Abar.fsync_foo
source kdave/xfstests tests/generic/520
expect foo and A/bar exist, with 2 links
mkdir A
creat foo
link foo A/bar
fsync foo; !

workload xfstests_generic_520.foo_Abar.fsync_bar
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat foo
link foo A/bar
creat bar
fsync bar; !

workload xfstests_generic_520.foo_Abar.fsync_A
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat foo
link foo A/bar
fsync A; !

workload xfstests_generic_520.foo_Abar.fsync_Abar
source kdave/xfstests tests/generic/520
expect foo and A/bar exist, with 2 links
mkdir A
creat foo
link foo A/bar
fsync A/bar; !

workload xfstests_generic_520.foo_Abar.fsync_Afoo
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat foo
link foo A/bar
creat A/foo
fsync A/foo; !

workload xfstests_generic_520.foo_Abar.sync
source kdave/xfstests tests/generic/520
expect foo and A/bar exist, with 2 links
mkdir A
creat foo
link foo A/bar
sync; !

# A second name bar for A/foo.
workload xfstests_generic_520.Afoo_bar.fsync_root
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat A/foo
link A/foo bar
fsync .; !

workload xfstests_generic_520.Afoo_bar.fsync_foo
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat A/foo
link A/foo bar
creat foo
fsync foo; !

workload xfstests_generic_520.Afoo_bar.fsync_bar
source kdave/xfstests tests/generic/520
expect A/foo and bar exist, with 2 links
mkdir A
creat A/foo
link A/foo bar
fsync bar; !

workload xfstests_generic_520.Afoo_bar.fsync_A
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat A/foo
link A/foo bar
fsync A; !

workload xfstests_generic_520.Afoo_bar.fsync_Abar
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat A/foo
link A/foo bar
creat A/bar
fsync A/bar; !

workload xfstests_generic_520.Afoo_bar.fsync_Afoo
source kdave/xfstests tests/generic/520
expect A/foo and bar exist, with 2 links
mkdir A
creat A/foo
link A/foo bar
fsync A/foo; !

workload xfstests_generic_520.Afoo_bar.sync
source kdave/xfstests tests/generic/520
expect A/foo and bar exist, with 2 links
mkdir A
creat A/foo
link A/foo bar
sync; !

# A second name A/bar for A/foo.
workload xfstests_generic_520.Afoo_Abar.fsync_root
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat A/foo
link A/foo A/bar
fsync .; !

workload xfstests_generic_520.Afoo_Abar.fsync_A
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat A/foo
link A/foo A/bar
fsync A; !

workload xfstests_generic_520.Afoo_Abar.fsync_Abar
source kdave/xfstests tests/generic/520
expect A/foo and A/bar exist, with 2 links
mkdir A
creat A/foo
link A/foo A/bar
fsync A/bar; !

workload xfstests_generic_520.Afoo_Abar.fsync_Afoo
source kdave/xfstests tests/generic/520
expect A/foo and A/bar exist, with 2 links
mkdir A
creat A/foo
link A/foo A/bar
fsync A/foo; !

workload xfstests_generic_520.Afoo_Abar.sync
source kdave/xfstests tests/generic/520
expect A/foo and A/bar exist, with 2 links
mkdir A
creat A/foo
link A/foo A/bar
sync; !

# A second name A/bar for bar.
workload xfstests_generic_520.bar_Abar.fsync_root
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat bar
link bar A/bar
fsync .; !

workload xfstests_generic_520.bar_Abar.fsync_foo
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat bar
link bar A/bar
creat foo
fsync foo; !

workload xfstests_generic_520.bar_Abar.fsync_bar
source kdave/xfstests tests/generic/520
expect bar and A/bar exist, with 2 links
mkdir A
creat bar
link bar A/bar
fsync bar; !

workload xfstests_generic_520.bar_Abar.fsync_A
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat bar
link bar A/bar
fsync A; !

workload xfstests_generic_520.bar_Abar.fsync_Abar
source kdave/xfstests tests/generic/520
expect bar and A/bar exist, with 2 links
mkdir A
creat bar
link bar A/bar
fsync A/bar; !

workload xfstests_generic_520.bar_Abar.fsync_Afoo
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat bar
link bar A/bar
creat A/foo
fsync A/foo; !

workload xfstests_generic_520.bar_Abar.sync
source kdave/xfstests tests/generic/520
expect bar and A/bar exist, with 2 links
mkdir A
creat bar
link bar A/bar
sync; !

# A second name bar for A/bar.
workload xfstests_generic_520.Abar_bar.fsync_root
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat A/bar
link A/bar bar
fsync .; !

workload xfstests_generic_520.Abar_bar.fsync_foo
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat A/bar
link A/bar bar
creat foo
fsync foo; !

workload xfstests_generic_520.Abar_bar.fsync_bar
source kdave/xfstests tests/generic/520
expect A/bar and bar exist, with 2 links
mkdir A
creat A/bar
link A/bar bar
fsync bar; !

workload xfstests_generic_520.Abar_bar.fsync_A
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat A/bar
link A/bar bar
fsync A; !

workload xfstests_generic_520.Abar_bar.fsync_Abar
source kdave/xfstests tests/generic/520
expect A/bar and bar exist, with 2 links
mkdir A
creat A/bar
link A/bar bar
fsync A/bar; !

workload xfstests_generic_520.Abar_bar.fsync_Afoo
source kdave/xfstests tests/generic/520
expect mountable
mkdir A
creat A/bar
link A/bar bar
creat A/foo
fsync A/foo; !

workload xfstests_generic_520.Abar_bar.sync
source kdave/xfstests tests/generic/520
expect A/bar and bar exist, with 2 links
mkdir A
creat A/bar
link A/bar bar
sync; !
