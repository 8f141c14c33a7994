# Known bug in btrfs, seen in Linux 3.13.
# Consequence: cannot be mounted (EOVERFLOW in log replay).
# mkfs.btrfs needs "-O extref".
# In ACE: not expressible (3000 links as setup).

workload generic_041
source B3 reproduced bug 3
source generic_041.cpp
expect mountable
expect after rm A/*, rmdir A succeeds
setup
mkdir A
creat A/foo
repeat i 0..2999 link A/foo A/foo_{i}
sync
run
unlink A/foo_0
link A/foo A/foo_3000
link A/foo A/foo_0
fsync A/foo; !
