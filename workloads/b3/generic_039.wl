# Known bug in btrfs, seen in Linux 3.13.
# Consequence: the directory cannot be removed, btrfs check reports errors.
# The xfstests original nests a directory B under A.
# In ACE: link foo bar, remove bar / sync, fsync foo.

workload generic_039
source B3 reproduced bug 2
source generic_039.cpp
expect after rm A/*, rmdir A succeeds
setup
mkdir A
sync
run
creat A/foo
link A/foo A/bar
sync
unlink A/bar
fsync A/foo; !
