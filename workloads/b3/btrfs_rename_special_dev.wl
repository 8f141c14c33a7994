# Known bug in btrfs, seen in Linux 4.16.
# Consequence: cannot be mounted.
# The program's S_IFCHR|S_IFBLK is a block device; xfstests makes the character device 0:0.
# In ACE: mknod foo, rename foo bar, link bar foo / fsync bar, none, fsync bar.

workload btrfs_rename_special_dev
source B3 reproduced bug 25 (one bug, 3 variants)
source btrfs_rename_dev.cpp
source xfstests generic/479
expect mountable
setup
mkdir A
mknod A/foo
sync
run
creat A/dummy
open A/dummy as @dummy
fsync A/dummy
rename A/foo A/bar
link A/bar A/foo
unlink A/dummy
fsync @dummy; !
