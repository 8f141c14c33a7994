# Known bug in btrfs, seen in Linux 3.13.
# Consequence: the directory cannot be removed (stale link).
# In ACE: not expressible (needs drop_caches).

workload generic_106
source B3 reproduced bug 9
source generic_106.cpp
expect after rm A/*, rmdir A succeeds
setup
mkdir A
creat A/foo
sync
run
link A/foo A/foo_link
sync
unlink A/foo_link
drop_caches 2
fsync A/foo; !
