# A regression that was brought back into btrfs of Linux 6.1: removed xattr re-appears.

workload btrfs_01
source the mechanism of generic_066
expect only xattr user.x1 exists
setup
creat foo
setxattr foo user.x1 v
setxattr foo user.x2 v
syncfs
run
removexattr foo user.x2
fsync foo; !
