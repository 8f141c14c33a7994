# Known bug in btrfs, seen in Linux 3.13.
# Consequence: the directory cannot be removed.

workload generic_107
source B3 reproduced bug 10
source ace.py entry 20
source xfstests generic/107
expect A/bar is gone
expect after rm A/*, rmdir A succeeds
mkdir A
creat foo
link foo A/foo
link foo A/bar
sync
unlink A/bar
fsync foo; !
