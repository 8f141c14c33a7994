# Known bug in btrfs, seen in Linux 4.16.
# Consequence: create fails with EEXIST (the object id is used again).
# After every crash the write checks create a file in each directory: that is the
# creat of A/bar, so no operation stands for it.

workload btrfs_inode_eexist
source B3 reproduced bug 26
source btrfs_inode_eexist.cpp
source xfstests generic/481
expect creating A/bar after the crash succeeds
setup
mkdir A
sync
run
creat A/foo
fsync A/foo; !
