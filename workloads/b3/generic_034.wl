# Known bug in btrfs, seen in Linux 3.13.
# Consequence: the directory cannot be removed (ENOTEMPTY), wrong directory i_size.
# In ACE: creat A/foo, creat A/bar / sync, fsync A (not generated: two creats share no file).

workload generic_034
source B3 reproduced bug 1
source tests/generic_034.cpp
expect after rm A/*, rmdir A succeeds
setup
mkdir A
creat A/foo
sync
run
creat A/bar
fsync A
fsync A/bar; !
