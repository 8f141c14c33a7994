# A regression that was brought back into btrfs of Linux 6.1: fsynced data lost (size 0).

workload btrfs_10
source the mechanism of generic_056, xfstests_generic_057
expect foo has its 4096 bytes
creat foo
write foo 0 4096
fsync foo
link foo foo_link
creat bar
fsync bar; !
