# Known bug in btrfs, seen in Linux 4.1.1.
# Consequence: the directory cannot be removed.

workload generic_104
source B3 reproduced bug 8
source generic_104.cpp
expect link counts are right
expect after rm A/*, rmdir A succeeds
setup
mkdir A
creat A/foo
creat A/bar
sync
run
link A/foo A/foo_link
link A/bar A/bar_link
fsync A/bar; !
