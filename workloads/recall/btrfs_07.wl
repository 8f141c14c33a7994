# A regression that was brought back into btrfs of Linux 6.1: prealloc beyond EOF lost.

workload btrfs_07
source the mechanism of new_8, xfstests_generic_483
expect st_blocks 40, size 16384
setup
creat foo
write foo 0 16384
fsync foo
syncfs
run
falloc foo keep_size 16384 4096
fsync foo; !
