# A regression that was brought back into btrfs of Linux 6.1: create fails (EEXIST, transaction abort) on the recovered file system.

workload btrfs_06
source the mechanism of btrfs_inode_eexist, xfstests_generic_481
expect POST-CRASH WRITE CHECK: creat bar succeeds, foo still there
creat foo
fsync foo; !
